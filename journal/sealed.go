package journal

// SealStatus counts the sealed and the clear payloads of a journal.
type SealStatus struct {
	Keys  []string         // IDs of the keys that have sealed payloads, in the order of their first use
	Boxes map[string]int64 // sealed payloads by the key's ID; a request or an answer counts as one with its body
	Clear int64            // payloads in clear
}
