package fleet

import (
	"context"
	"fmt"
	"time"
)

// hearWitness makes a journal that is behind the witness count as restored.
func (f *Fleet) hearWitness(ctx context.Context, c Conn) error {
	if f.opts.Witness == nil {
		return nil
	}
	told, err := f.opts.Witness.Load(ctx)
	if err != nil {
		return fmt.Errorf("%s: Options.Witness can't be asked whether the database has gone back: %w", f.opts.Store, err)
	}
	is, err := c.Look(ctx)
	if err != nil {
		return err
	}
	if is.Witnessed < told {
		return f.looksRestored(ctx, c, is.Epoch, fmt.Sprintf("the database has gone back: it is at %d, and the witness has seen %d", is.Witnessed, told))
	}
	return f.testify(ctx, c)
}

// testify stores a number in the witness that the database has for certain. Before the comparison it loads the witness's
// number. If the database's number is below that, the database has gone back.
func (f *Fleet) testify(ctx context.Context, c Conn) error {
	now := time.Now()
	if f.opts.Witness == nil || f.opts.Existing || f.restored.Load() != nil || now.Before(f.testimonyDue) {
		return nil
	}
	f.testimonyDue = now.Add(f.opts.Testify)
	told, err := f.opts.Witness.Load(ctx) // before the number is raised, as others raise it too
	if err != nil {
		f.opts.Log.Warn("onceward: the journal's witness does not say whether the database has gone back; it is asked again later", "error", err)
		return nil
	}
	number, epoch, err := c.Testify(ctx)
	if err != nil {
		return err
	}
	if number <= told {
		return f.isOlder(ctx, c, epoch, fmt.Sprintf("it is at %d, and the witness has seen %d", number-1, told))
	}
	if err := f.opts.Witness.Store(ctx, number); err != nil {
		f.opts.Log.Warn("onceward: the journal's position could not be written to the witness", "error", err)
	}
	return nil
}

// WitnessStep is added to the number by an Adopt or a Confirm. It is more than beats add in any journal's life.
const WitnessStep = int64(1) << 32

// cutOff begins another epoch. The caller calls done once the transaction has committed.
func (f *Fleet) cutOff(ctx context.Context, t Tx, word, restored string) (done func(), err error) {
	m, told := f.member.Load(), int64(0)
	// Above every number given to a witness, by this process or, as far as a tool can know, by the service.
	if w := f.opts.Witness; w != nil {
		if told, err = w.Load(ctx); err != nil {
			return nil, fmt.Errorf("%s: Options.Witness does not give its position: %w", f.opts.Store, err)
		}
	}
	return func() {
		m.Gone.Store(true)
		f.Memory.Forget()
	}, t.CutOff(ctx, word, restored, told)
}

// Confirm ends the restored state without changing an operation. If the journal does not count as restored, it does
// nothing.
func (f *Fleet) Confirm(ctx context.Context) error {
	if f.Why() == "" {
		return nil
	}
	var done func()
	err := f.transact(ctx, "confirm", func(ctx context.Context, t Tx) (err error) {
		done, err = f.cutOff(ctx, t, "confirmed", "")
		return err
	})
	if err == nil {
		done()
		f.adopted()
	}
	return err
}

// Adopt adds the begin of an adoption to the transaction, if the journal counts as restored from then on, or its end. was
// is why it counted as restored. The caller calls done once the transaction has committed.
func (f *Fleet) Adopt(ctx context.Context, t Tx, was, restored string) (done func(), err error) {
	if err := t.StillRestored(ctx, was); err != nil {
		return nil, err
	}
	if restored != "" {
		return f.cutOff(ctx, t, "adopts it", restored)
	}
	return f.adopted, t.Adopted(ctx)
}
