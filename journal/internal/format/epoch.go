package format

import "encoding/binary"

// EncodeEpoch seals an epoch with the journal's identity. All epochs have the same length, so an epoch's row stays
// where it is.
func EncodeEpoch(identity string, epoch int64) []byte {
	sealed := withSum(binary.LittleEndian.AppendUint64([]byte(identity), uint64(epoch)))
	return sealed[len(identity):]
}

// DecodeEpoch reads what EncodeEpoch made with the same identity.
func DecodeEpoch(identity string, b []byte) (int64, error) {
	b, err := withoutSum(append([]byte(identity), b...))
	if err != nil || len(b) != len(identity)+8 {
		return 0, ErrDamaged
	}
	return int64(binary.LittleEndian.Uint64(b[len(identity):])), nil
}
