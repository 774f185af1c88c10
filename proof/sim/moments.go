package sim

import "time"

// moments are the spells that much of the business meets together.
type moments struct {
	blip       spell
	leap       spell // half of the clocks that leap ahead do so then
	incident   spell // a host is down for longer than it remembers
	host       string
	answerless spell // … before which its answers are lost
	correction time.Duration
	corrected  chan struct{} // closed at that time: every process starts anew, with right tables
}

// spell is a stretch of a life.
type spell struct{ from, to time.Duration }

func (s spell) has(at time.Duration) bool { return at >= s.from && at < s.to }

// drawMoments draws them; a host's retention is made shorter for an incident.
func (l *life) drawMoments(hosts []string) {
	m := &l.moments
	m.corrected = make(chan struct{})
	random := l.dice("moments")
	if l.has(blips) {
		m.blip.from = random.within(l.length / 2)
		m.blip.to = m.blip.from + 5*time.Second + random.within(10*time.Minute)
	}
	if l.has(clocks) {
		m.leap.from = random.within(l.length / 2)
		m.leap.to = m.leap.from + 3*time.Minute + random.within(6*time.Minute)
	}
	if !l.has(corrections) {
		return
	}
	for _, host := range hosts {
		c := l.world.contracts[host]
		if c.retention == 0 {
			continue
		}
		c.retention = 20*time.Minute + random.within(20*time.Minute)
		l.world.contracts[host] = c
		m.host = host
		m.incident.from = 10*time.Minute + random.within(l.length/4)
		m.incident.to = m.incident.from + c.retention + random.within(c.retention)
		m.answerless = spell{m.incident.from - 2*time.Minute, m.incident.from}
		m.correction = m.incident.from + random.within(m.incident.to-m.incident.from)
	}
}

// befalls returns the fate of a request to a host at such a moment, if there is one.
func (m *moments) befalls(host string, at time.Duration) (f fate, there bool) {
	switch {
	case m.host == host && m.answerless.has(at):
		return lostAfter, true
	case m.host == host && m.incident.has(at), m.blip.has(at):
		return refusedTCP, true
	}
	return goesWell, false
}

// draws returns the time of an errand, for half of the errands, so that they meet such a moment.
func (l *life) draws(e *errand) (at time.Duration, there bool) {
	m, random := &l.moments, l.dice("moment", e.name)
	switch {
	case random.of(2):
	case m.host == e.host && m.host != "":
		return m.answerless.from + random.within(time.Minute), true
	case m.leap.to > 0 && random.of(2):
		return m.leap.from + random.within(m.leap.to-m.leap.from) - time.Minute, true
	case m.blip.to > 0:
		return m.blip.from + random.within(m.blip.to-m.blip.from), true
	}
	return 0, false
}

// corrects has an operator correct the tables, and restart every process.
func (l *life) corrects() {
	m := &l.moments
	if m.host == "" {
		return
	}
	time.Sleep(m.correction)
	l.mu.Lock()
	l.wrong, l.quoted = false, false
	l.mu.Unlock()
	close(m.corrected)
	l.tell("person", "", "corrects the tables")
}

// correctedThen returns a channel that is closed when a starting process has to restart. It returns nil if the tables
// are corrected already.
func (l *life) correctedThen() <-chan struct{} {
	select {
	case <-l.moments.corrected:
		return nil
	default:
		return l.moments.corrected
	}
}
