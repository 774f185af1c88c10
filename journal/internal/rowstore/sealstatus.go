package rowstore

import (
	"context"

	"github.com/onceward/onceward/journal"
	"github.com/onceward/onceward/journal/internal/format"
	"github.com/onceward/onceward/seal"
)

// SealStatus reads all records in pages, and needs no key. It passes over damaged records, and returns the error of one too.
func (s *Store) SealStatus(ctx context.Context) (status journal.SealStatus, err error) {
	status.Boxes = make(map[string]int64)
	var passed error
	for _, of := range []func(*sealPage, Reader) error{(*sealPage).head, (*sealPage).operations, (*sealPage).flows, (*sealPage).receipts} {
		var page sealPage
		for page.more = true; page.more; {
			if err := s.open(ctx); err != nil {
				return status, err
			}
			after := page.after
			err := s.source.Read(ctx, func(r Reader) error {
				page = sealPage{ctx: ctx, after: after, passed: passed} // it may be read again
				return of(&page, r)
			})
			if err != nil {
				return status, err
			}
			passed = page.passed
			status.Keys = append(status.Keys, page.marked...)
			status.Clear += page.clear
			for _, key := range page.keys {
				status.Boxes[key]++
			}
		}
	}
	return status, passed
}

// sealPage is what a page of records has.
type sealPage struct {
	ctx    context.Context
	after  int64
	more   bool
	passed error // of the first damaged record

	marked []string // of the head
	keys   []string // one for each box
	clear  int64
}

// box counts a payload. An empty key means clear text.
func (p *sealPage) box(key string) {
	if key == "" {
		p.clear++
	} else {
		p.keys = append(p.keys, key)
	}
}

func (p *sealPage) head(r Reader) error {
	head, err := r.Head(p.ctx)
	p.marked = keysOf(head.Sealed)
	return err
}

func (p *sealPage) operations(r Reader) error {
	places, err := r.Scan(p.ctx, Scan{Index: ByHandle, After: Position{Handle: p.after}, Limit: listPage})
	if err != nil {
		return err
	}
	rows, err := load(p.ctx, r, places, Keys{Heads: true})
	for _, at := range places {
		p.after = at.Handle
		if row := rows[at.Handle]; row != nil {
			_ = passes(p.operation(row), &p.passed)
		}
	}
	p.more = len(places) == listPage
	return err
}

func (p *sealPage) operation(row *Row) error {
	var none format.Codec // which says what key it lacks
	it, err := decode(none, row)
	if err == nil {
		err = it.fillHeads(row)
	}
	if err != nil {
		return err
	}
	if it.box != nil || !it.op.Tombstone {
		p.box(it.op.SealedBy)
	}
	if head, _ := it.request.bytes(); head != nil {
		_, key, err := none.DecodeRequest(it.op.Ref, head, nil)
		if err != nil {
			return damaged(row.Handle, err)
		}
		p.box(key)
	}
	if head, _ := it.answer.bytes(); head != nil {
		a, key, err := none.DecodeAnswer(it.op.Ref, head, nil)
		if err != nil {
			return damaged(row.Handle, err)
		}
		if key != "" || format.HasPayload(a) {
			p.box(key)
		}
	}
	return nil
}

func (p *sealPage) flows(r Reader) error {
	rows, err := r.Flows(p.ctx, FlowScan{After: Position{Handle: p.after}, Limit: flowPage})
	if err != nil {
		return err
	}
	for _, row := range rows {
		p.after = row.Handle
		f, err := decodeFlow(format.Codec{}, row)
		if passes(err, &p.passed) {
			continue
		}
		p.box(f.SealedBy)
		if len(row.Input) > 0 {
			p.boxOf(row.Input)
		}
		steps, err := r.Steps(p.ctx, row.Handle)
		if err != nil {
			return err
		}
		for _, step := range steps {
			p.boxOf(step.Result)
		}
	}
	p.more = len(rows) == flowPage
	return nil
}

func (p *sealPage) boxOf(stored []byte) {
	key, _ := seal.KeyOf(stored)
	p.box(key)
}

func (p *sealPage) receipts(r Reader) error {
	rows, err := r.Receipts(p.ctx, ReceiptScan{After: Position{Handle: p.after}, Limit: receiptPage})
	for _, row := range rows {
		p.after = row.Handle
		if _, err := decodeReceiptLight(format.Codec{}, row); passes(err, &p.passed) {
			continue
		}
		p.boxOf(row.box)
		if row.Answer != nil {
			is := journal.Receipt{ReceiptKey: row.Key}
			_ = format.Codec{}.DecodeReceiptAnswer(&is, row.Answer, nil) // it was decoded before
			if is.SealedBy != "" || format.HasPayload(is.Answer) {
				p.box(is.SealedBy)
			}
		}
	}
	p.more = len(rows) == receiptPage
	return err
}
