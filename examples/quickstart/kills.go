package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/onceward/onceward/providers/providertest"
)

// kill is one death of the paying process, counted in requests that the provider
// has seen: after a delay of 0 it comes before the request has any effect.
type kill struct {
	request int
	delay   time.Duration
}

// maxKillDelay is about as long as a request takes that meets no fault, so that
// kills come before the effect, between effect and answer, and after the answer.
const maxKillDelay = 60 * time.Millisecond

// span is how many requests are sure to come: one for each invoice, and one for
// about every fourth invoice whose first request meets a fault.
func (o options) span() int { return o.first * 5 / 4 }

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

// killer kills the payer of the moment. A kill that falls due while there is none,
// or while it is dying already, awaits the next payer's first request.
type killer struct {
	told io.Writer // nil: silent

	mu     sync.Mutex
	ahead  []kill
	victim *os.Process // nil: there is none
	struck bool        // the victim has a kill coming
	landed bool        // … which was sent
}

// aim gives the killer the next payer.
func (k *killer) aim(payer *os.Process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.victim, k.struck, k.landed = payer, false, false
}

// miss takes the payer away, which has ended, and tells whether a kill was sent.
func (k *killer) miss() (landed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.victim = nil
	return k.landed
}

// observe is called by the provider with each request, before it does anything.
func (k *killer) observe(r providertest.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.victim == nil || k.struck || len(k.ahead) == 0 || r.Number < k.ahead[0].request {
		return
	}
	next, victim := k.ahead[0], k.victim
	k.ahead, k.struck = k.ahead[1:], true
	if next.delay == 0 {
		k.strike(victim, r, next)
		return
	}
	time.AfterFunc(next.delay, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.victim == victim {
			k.strike(victim, r, next)
		}
	})
}

// strike kills; k.mu is held.
func (k *killer) strike(victim *os.Process, r providertest.Request, by kill) {
	if err := victim.Kill(); err != nil {
		return
	}
	k.landed = true
	if k.told != nil {
		fmt.Fprintf(k.told, "killed %v after request %d arrived (its fault: %v)\n", by.delay.Round(time.Millisecond), r.Number, r.Fault)
	}
}
