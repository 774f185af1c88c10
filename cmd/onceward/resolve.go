package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onceward/onceward"
	"github.com/onceward/onceward/internal/machine"
	"github.com/onceward/onceward/internal/shown"
	"github.com/onceward/onceward/journal"
)

// resolution has resolve's flags.
type resolution struct {
	executed, notExecuted, sendAgain bool
	because, seen, by, candidate     string
	sure                             bool
	answer, contentType              string
	status                           int
}

func (c *command) resolveCommand() *cobra.Command {
	var r reference
	var how resolution
	cmd := &cobra.Command{
		Use:   "resolve REF --executed|--not-executed|--send-again --because WHY",
		Short: "Say what became of an operation that is unknown or pending",
		Long: "resolve records an operator's finding at the provider. --not-executed and --send-again assert that it had no effect:\n" +
			"if the provider did execute it, the next one is a second effect. The version that you read (show prints it as seen) is compared: if the operation\n" +
			"has changed since, nothing is recorded. This command sends nothing: the application sends the operation again.",
		Args: exactly(1, "the name of an operation, or its handle"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.resolve(cmd.Context(), &r, args[0], how) },
	}
	r.operationFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&how.executed, "executed", false, "it took effect")
	flags.BoolVar(&how.notExecuted, "not-executed", false, "it had no effect: it is cancelled, and its name may be asked again")
	flags.BoolVar(&how.sendAgain, "send-again", false, "it had no effect: the application sends its next generation, under a new key")
	flags.StringVar(&how.because, "because", "", "how that is known, which is recorded")
	flags.StringVar(&how.seen, "seen", "", "generation and claim that you read, as show prints them (0.3); needed with --yes")
	flags.StringVar(&how.by, "by", "", "your name, which is recorded (default: the name of the system's user)")
	flags.BoolVar(&how.sure, "yes", false, "don't ask")
	flags.StringVar(&how.candidate, "candidate", "", "with --executed: the id of the object that it made, one of those that show lists as seen of it")
	flags.StringVar(&how.answer, "answer", "", "with --executed: a file with the body of the provider's answer, which callers get; - for standard input")
	flags.IntVar(&how.status, "answer-status", http.StatusOK, "with --answer: its status")
	flags.StringVar(&how.contentType, "answer-type", "application/json", "with --answer: its Content-Type")
	return cmd
}

// resolution returns the flags' resolution.
func (how *resolution) resolution() (journal.Resolution, error) {
	var said []journal.Resolution
	for _, one := range []struct {
		is bool
		as journal.Resolution
	}{{how.executed, journal.Executed}, {how.notExecuted, journal.NotExecuted}, {how.sendAgain, journal.SendAgain}} {
		if one.is {
			said = append(said, one.as)
		}
	}
	switch {
	case len(said) != 1:
		return 0, usage("resolve needs one of --executed, --not-executed and --send-again")
	case strings.TrimSpace(how.because) == "":
		return 0, usage("resolve needs --because: how that is known, which is recorded")
	case how.sure && how.seen == "":
		return 0, usage("resolve --yes needs --seen: the generation and claim that you read, as show prints them")
	case how.candidate != "" && said[0] != journal.Executed:
		return 0, usage("--candidate goes with --executed")
	case how.answer != "" && said[0] != journal.Executed:
		return 0, usage("--answer goes with --executed")
	}
	return said[0], nil
}

// pair parses two numbers with a dot between them.
func pair(seen string) (first, second int64, err error) {
	one, other, _ := strings.Cut(seen, ".")
	if first, err = strconv.ParseInt(one, 10, 64); err == nil {
		second, err = strconv.ParseInt(other, 10, 64)
	}
	return first, second, err
}

func (c *command) resolve(ctx context.Context, r *reference, arg string, how resolution) error {
	as, err := how.resolution()
	if err != nil {
		return err
	}
	return c.settle(ctx, r, arg, how, as, func(s store, op *journal.Operation) error {
		if as == journal.SendAgain && op.State == journal.StatePending {
			return c.waits(ctx, s, op)
		}
		return nil
	})
}

// waits refuses to send a pending operation under another key while it will be sent under its own.
func (c *command) waits(ctx context.Context, s store, op *journal.Operation) error {
	now := c.at(s)
	last, unconfirmed, err := s.clock(ctx, now)
	if err != nil {
		return err
	}
	if why := shown.WhyOf(op, now, last, unconfirmed); why.Answer != machine.Never.String() {
		return refused("it is pending, and waiting sends it by itself with its own key (%s): see why", why.Because)
	}
	return nil
}

// settle records an operator's decision about an operation, once it is allowed and confirmed.
func (c *command) settle(ctx context.Context, r *reference, arg string, how resolution, as journal.Resolution, allowed func(store, *journal.Operation) error) error {
	return c.using(ctx, access{write: true}, func(s store) error { return c.settleIn(ctx, s, r, arg, how, as, allowed) })
}

func (c *command) settleIn(ctx context.Context, s store, r *reference, arg string, how resolution, as journal.Resolution,
	allowed func(store, *journal.Operation) error) error {
	op, err := r.operation(ctx, s, arg)
	if unlessSealed(err) != nil {
		return err
	}
	seen := onceward.Seen{Ref: op.Ref, Generation: op.Generation, Claim: op.Claim}
	if how.seen != "" {
		generation, claim, err := pair(how.seen)
		if err != nil {
			return usage("--seen %s: it takes a generation and a claim, such as 0.3, as show prints them", shown.Text(how.seen))
		}
		seen.Generation, seen.Claim = int(generation), claim
	}
	if seen.Generation == op.Generation && (seen.Claim == op.Claim || as == journal.Executed) {
		if err := allowed(s, &op); err != nil {
			return err
		}
	}
	name := c.operationOf(&op).ID
	if !how.sure {
		c.tell("%s, %s, created %s, %s", shown.Text(name), op.State, op.CreatedAt.Format("2006-01-02 15:04:05 MST"), shown.Text(op.Cause))
	}
	if err := c.confirm(how.sure, fmt.Sprintf("It is recorded as %s, and that can't be taken back", strings.ReplaceAll(as.String(), "_", " ")), name); err != nil {
		return err
	}
	options := onceward.ResolveOptions{By: cmp.Or(how.by, whoever()), Why: how.because, Candidate: how.candidate}
	if how.answer != "" {
		body, err := c.read(how.answer)
		if err != nil {
			return err
		}
		options.Answer = &onceward.Answer{Status: how.status, Header: http.Header{"Content-Type": {how.contentType}}, Body: body}
	}
	client, err := onceward.New(onceward.Config{Journal: s, Providers: known(), Authorize: func(*http.Request) error { return errSends }})
	if err != nil {
		return err
	}
	_, err = client.Resolve(ctx, seen, as, options)
	if ended := client.Shutdown(ctx); err == nil {
		err = ended
	}
	if err != nil {
		return err
	}
	if op, err = s.Get(ctx, op.Ref); unlessSealed(err) != nil {
		return err
	}
	d := c.detailOf(&op, false)
	return c.say(&d)
}

var errSends = fmt.Errorf("this command sends nothing")

// maxAnswer limits an answer from a file: a client's default limit.
const maxAnswer = 8 << 20

func (c *command) read(path string) ([]byte, error) {
	var from io.Reader = c.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, &exit{exitUsage, err}
		}
		defer f.Close()
		from = f
	}
	body, err := io.ReadAll(io.LimitReader(from, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = usage("--answer %s: it is larger than %s", path, shown.Bytes(maxAnswer))
	}
	return body, err
}

// whoever returns the user who runs the command, or the one behind sudo.
func whoever() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "user " + strconv.Itoa(os.Getuid())
}

func (c *command) cancelCommand() *cobra.Command {
	var r reference
	how := resolution{}
	cmd := &cobra.Command{
		Use: "cancel REF", Short: "Cancel a pending operation of which nothing was ever sent",
		Args: exactly(1, "the name of an operation, or its handle"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if how.sure && how.seen == "" {
				return usage("cancel --yes needs --seen: the generation and claim that you read, as show prints them")
			}
			how.because = cmp.Or(how.because, "cancelled before anything was sent")
			return c.settle(cmd.Context(), &r, args[0], how, journal.NotExecuted, func(_ store, op *journal.Operation) error {
				switch {
				case op.State == journal.StateInFlight:
					return refused("it is being sent just now: wait for its outcome")
				case op.State.Settled():
					return refused("it is %s", op.State)
				case op.State != journal.StatePending || op.MayHaveRun:
					return refused("it may have been sent, so cancelling it would assert that it had no effect: look it up at the provider, and resolve it")
				}
				return nil
			})
		},
	}
	r.operationFlags(cmd)
	cmd.Flags().StringVar(&how.because, "because", "", "why, which is recorded")
	cmd.Flags().StringVar(&how.seen, "seen", "", "generation and claim that you read, as show prints them (0.3); needed with --yes")
	cmd.Flags().StringVar(&how.by, "by", "", "your name, which is recorded (default: the name of the system's user)")
	cmd.Flags().BoolVar(&how.sure, "yes", false, "don't ask")
	return cmd
}
