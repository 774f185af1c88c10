package severed

import (
	"context"

	"github.com/onceward/onceward/internal/machine"
)

var _ machine.Reconciler = (*Journal)(nil)

func (j *Journal) Looks(ctx context.Context, ev machine.Event, limit int) ([]machine.Result, error) {
	if err := j.Alive(); err != nil {
		return nil, err
	}
	res, err := j.Store.(machine.Reconciler).Looks(ctx, ev, limit)
	if cut := j.Alive(); cut != nil {
		return nil, cut
	}
	return res, err
}

func (j *Journal) RecordEvent(ctx context.Context, heard machine.Heard, evs []machine.Event) ([]machine.Result, bool, error) {
	if err := j.Alive(); err != nil {
		return nil, false, err
	}
	res, first, err := j.Store.(machine.Reconciler).RecordEvent(ctx, heard, evs)
	if cut := j.Alive(); cut != nil {
		return nil, false, cut
	}
	return res, first, err
}

func (j *Journal) FindBy(ctx context.Context, provider string, by machine.By, value string) ([]machine.Match, error) {
	if err := j.Alive(); err != nil {
		return nil, err
	}
	return j.Store.(machine.Reconciler).FindBy(ctx, provider, by, value)
}
