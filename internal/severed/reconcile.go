package severed

import (
	"context"

	"github.com/onceward/onceward/journal"
)

var _ journal.Reconciler = (*Journal)(nil)

func (j *Journal) Looks(ctx context.Context, ev journal.Event, limit int) ([]journal.Result, error) {
	if err := j.Alive(); err != nil {
		return nil, err
	}
	res, err := j.Journal.(journal.Reconciler).Looks(ctx, ev, limit)
	if cut := j.Alive(); cut != nil {
		return nil, cut
	}
	return res, err
}

func (j *Journal) Hear(ctx context.Context, heard journal.Heard, evs []journal.Event) ([]journal.Result, bool, error) {
	if err := j.Alive(); err != nil {
		return nil, false, err
	}
	res, first, err := j.Journal.(journal.Reconciler).Hear(ctx, heard, evs)
	if cut := j.Alive(); cut != nil {
		return nil, false, cut
	}
	return res, first, err
}

func (j *Journal) FindBy(ctx context.Context, provider string, by journal.By, value string) ([]journal.Match, error) {
	if err := j.Alive(); err != nil {
		return nil, err
	}
	return j.Journal.(journal.Reconciler).FindBy(ctx, provider, by, value)
}
