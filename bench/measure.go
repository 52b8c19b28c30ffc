package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/usher-dev/usher/internal/load"
)

// A plan is how targets are measured.
type plan struct {
	rounds int
	// time is how long one target is measured in one mode.
	time        time.Duration
	connections int
	progress    io.Writer
}

// A measure is one mode of a target, over all rounds: the best of each figure, since other work on
// the machine only makes them worse.
type measure struct {
	rate           float64
	p50, p99, p999 time.Duration
	cpu            time.Duration
}

// A subject is a target that is measured.
type subject struct {
	target
	server *server
	// single and many are its connections, and the closed loops over them; half is the
	// open loop at half the rate of many, the highest so far.
	single, many *load.Generator
	one, all     measure
	half         measure
	// ratios are the CPU time of a request over many connections in that of the ordinary
	// webhook just before, one a round.
	ratios   []float64
	memory   int64
	verdicts map[string]int
	failures map[string]int
}

// run measures targets in alternating rounds with one review.
func (r *rig) run(ctx context.Context, p plan, targets []target, body []byte) ([]*subject, error) {
	var subjects []*subject
	defer func() {
		for _, s := range subjects {
			s.close()
		}
	}()
	for _, t := range targets {
		s, err := r.subject(ctx, p, t, body)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, s)
	}
	for round := range p.rounds {
		for _, s := range subjects {
			_, _ = fmt.Fprintf(p.progress, "\r\x1b[Kround %d of %d: %s", round+1, p.rounds, s.name)
			if err := s.round(ctx, p, find(subjects, ordinary)); err != nil {
				return nil, fmt.Errorf("measure %s: %w", s.name, err)
			}
		}
	}
	_, _ = fmt.Fprint(p.progress, "\r\x1b[K")
	for _, s := range subjects {
		// Where it cannot be measured there is none.
		s.memory, _ = memoryOf(s.server.pid())
		if len(s.failures) > 0 {
			return nil, fmt.Errorf("%s does not answer: %v", s.name, s.failures)
		}
		// A server under overload may deny because of timeouts.
		if got := s.verdict(); !strings.Contains(got, s.want) {
			return nil, fmt.Errorf("%s answers %s instead of %s", s.name, got, s.want)
		}
	}
	return subjects, nil
}

func (r *rig) subject(ctx context.Context, p plan, t target, body []byte) (*subject, error) {
	s := &subject{target: t, verdicts: map[string]int{}, failures: map[string]int{}}
	var err error
	if s.server, err = r.start(ctx, t); err != nil {
		return nil, err
	}
	options := load.Options{TLS: r.tls, Connections: 1, Timeout: time.Minute}
	for _, path := range t.paths {
		options.Requests = append(options.Requests, load.Request{URL: s.server.url + path, Body: body})
	}
	if s.single, err = load.Connect(ctx, options); err == nil {
		options.Connections = p.connections
		s.many, err = load.Connect(ctx, options)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *subject) close() {
	for _, g := range []*load.Generator{s.single, s.many} {
		if g != nil {
			g.Close()
		}
	}
	s.server.stop()
}

// find returns the subject that is a reference, nil if there is none.
func find(subjects []*subject, reference string) *subject {
	for _, s := range subjects {
		if s.reference == reference {
			return s
		}
	}
	return nil
}

// round measures a target once in each mode, and the ordinary webhook beside it, since the load of
// a machine changes from one second to the next.
func (s *subject) round(ctx context.Context, p plan, ordinary *subject) error {
	one, err := s.ask(ctx, s.single, load.Pace{Duration: p.time})
	if err != nil {
		return err
	}
	s.one.add(one)
	var unit measure
	if ordinary != nil && ordinary != s {
		if unit, err = ordinary.ask(ctx, ordinary.many, load.Pace{Duration: p.time}); err != nil {
			return err
		}
		ordinary.all.add(unit)
	}
	all, err := s.ask(ctx, s.many, load.Pace{Duration: p.time})
	if err != nil {
		return err
	}
	s.all.add(all)
	if unit.cpu > 0 {
		s.ratios = append(s.ratios, float64(all.cpu)/float64(unit.cpu))
	}
	half, err := s.ask(ctx, s.many, load.Pace{Duration: p.time, Rate: max(s.all.rate/2, 1)})
	s.half.add(half)
	return err
}

func (s *subject) ask(ctx context.Context, g *load.Generator, pace load.Pace) (measure, error) {
	// Where it cannot be measured it is 0.
	before, _ := cpuOf(s.server.pid())
	result := g.Run(ctx, pace)
	after, _ := cpuOf(s.server.pid())
	if ctx.Err() != nil {
		return measure{}, ctx.Err()
	}
	for verdict, n := range result.Verdicts {
		s.verdicts[verdict] += n
	}
	for kind, n := range result.Errors {
		s.failures[fmt.Sprintf("%s (%v)", kind, result.Samples[kind])] += n
	}
	if result.Answered == 0 {
		return measure{}, nil
	}
	return measure{
		rate: result.Rate(),
		p50:  result.Latency.Quantile(.5), p99: result.Latency.Quantile(.99), p999: result.Latency.Quantile(.999),
		cpu: (after - before) / time.Duration(result.Answered),
	}, nil
}

func (m *measure) add(round measure) {
	switch {
	case round.rate == 0:
		// Nothing was answered.
		return
	case m.rate == 0:
		*m = round
		return
	}
	m.rate = max(m.rate, round.rate)
	m.p50, m.p99, m.p999 = min(m.p50, round.p50), min(m.p99, round.p99), min(m.p999, round.p999)
	m.cpu = min(m.cpu, round.cpu)
}

func (s *subject) verdict() string { return strings.Join(slices.Sorted(maps.Keys(s.verdicts)), ", ") }
