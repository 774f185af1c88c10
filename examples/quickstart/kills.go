package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/onceward/onceward/providers/providertest"
)

// kill is one death of the paying process, counted in the provider's requests. The request is held until the process
// is dead, and takes effect then.
type kill struct {
	request int
	delay   time.Duration
}

// maxKillDelay is about as long as a faultless request takes, so other requests are cut off before the effect, between
// effect and answer, and after the answer.
const maxKillDelay = 60 * time.Millisecond

// span is how many requests are sure to come: one for each invoice.
func (o options) span() int { return o.first }

// drawKills spreads n kills over the requests up to span, one somewhere in each of
// n equal stretches.
func drawKills(seed uint64, n, span int) []kill {
	random := rand.New(rand.NewPCG(seed, 0))
	kills := make([]kill, n)
	for i := range kills {
		from, to := i*span/n, (i+1)*span/n
		kills[i].request = from + 1 + random.IntN(to-from)
		if random.IntN(3) > 0 {
			kills[i].delay = time.Duration(random.Int64N(int64(maxKillDelay)))
		}
	}
	return kills
}

// killer kills the present payer. A kill that falls due while there is no process, or the process is dying,
// awaits the next payer's first request.
type killer struct {
	told io.Writer // nil: silent

	mu     sync.Mutex
	ahead  []kill
	victim *os.Process // nil: there is none
	deploy *time.Timer // stops the victim; nil: it has made no request yet
	struck bool        // the victim has a kill coming
	landed bool        // … which was sent
}

// start starts the next payer, which makes no request before the killer knows it.
func (k *killer) start(payer *exec.Cmd) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := payer.Start(); err != nil {
		return err
	}
	k.victim, k.struck, k.landed = payer.Process, false, false
	return nil
}

// miss takes the payer away, which has ended, and tells whether a kill was sent.
func (k *killer) miss() (landed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.victim = nil
	if k.deploy != nil {
		k.deploy.Stop()
		k.deploy = nil
	}
	return k.landed
}

// observe is called by the provider with each request, before it does anything. A payer with a coming kill waits for
// this request, so the payer can't end before the kill.
func (k *killer) observe(r providertest.Request) {
	next, victim := k.due(r)
	if victim == nil {
		return
	}
	time.Sleep(next.delay)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.victim != victim || !k.strike(victim, r, next) {
		k.ahead = append([]kill{next}, k.ahead...) // it has ended by itself, as by a deploy
	}
}

// due returns the kill that falls due with a request, and the kill's payer.
func (k *killer) due(r providertest.Request) (next kill, victim *os.Process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if victim := k.victim; victim != nil && k.deploy == nil {
		k.deploy = time.AfterFunc(deployAfter, func() { k.stop(victim) })
	}
	if k.victim == nil || k.struck || len(k.ahead) == 0 || r.Number < k.ahead[0].request {
		return kill{}, nil
	}
	next = k.ahead[0]
	k.ahead, k.struck = k.ahead[1:], true
	return next, k.victim
}

// stop tells a payer to end, as a deploy does, if a kill is not coming. A deploy waits for the payer's first request and a
// while longer. So each life pays something, however long it takes to start.
func (k *killer) stop(victim *os.Process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.victim == victim && !k.struck {
		_ = victim.Signal(syscall.SIGTERM) // Windows knows no such thing
	}
}

// strike kills the victim, and reports whether it was still there. k.mu is held.
func (k *killer) strike(victim *os.Process, r providertest.Request, by kill) bool {
	if err := victim.Kill(); err != nil {
		return false
	}
	k.landed = true
	if k.told != nil {
		fmt.Fprintf(k.told, "killed %v after request %d arrived (its fault: %v)\n", by.delay.Round(time.Millisecond), r.Number, r.Fault)
	}
	return true
}
