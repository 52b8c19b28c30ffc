// Package load sends requests to a webhook and measures its responses.
//
// In an open loop requests are due at fixed times, regardless of earlier responses, and latency is
// measured from when a request was due: a stall counts for all requests that waited. In a closed
// loop each connection sends the next request as soon as it has a response, which measures the
// maximum throughput.
//
// It speaks HTTP/1.1 with keep-alive, as API servers do to webhooks that are Services,
// and costs far less than the client of net/http: it often shares a machine with what it
// measures.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// A Request is the JSON body of a POST.
type Request struct {
	URL  string
	Body []byte
}

// Options configure a [Generator].
type Options struct {
	// Requests are posted in turn. All go to the same host.
	Requests []Request
	// TLS is for https URLs; nil means the system's CAs.
	TLS *tls.Config
	// Connections is how many requests can be on their way at the same time; 0 means 1.
	Connections int
	// Timeout bounds each request, from when it is sent; 0 means 10 seconds.
	Timeout time.Duration
}

// A Pace is the rate of requests, and for how long.
type Pace struct {
	// Rate is in requests a second; 0 is a closed loop.
	Rate     float64
	Duration time.Duration
}

// A Generator holds connections to a server. Only one Run at a time.
type Generator struct {
	options Options
	shots   []shot
	workers []*worker
}

// Connect opens the connections. It fails if the server cannot be reached.
func Connect(ctx context.Context, o Options) (*Generator, error) {
	if o.Connections <= 0 {
		o.Connections = 1
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	shots, server, err := shotsOf(o.Requests)
	if err != nil {
		return nil, err
	}
	g := &Generator{options: o, shots: shots}
	for range o.Connections {
		w := &worker{server: server, tls: o.TLS, timeout: o.Timeout, known: make([]answer, len(shots))}
		g.workers = append(g.workers, w)
		if err := w.connect(ctx); err != nil {
			g.Close()
			return nil, fmt.Errorf("connect to %s: %w", server.Host, err)
		}
	}
	return g, nil
}

func shotsOf(requests []Request) ([]shot, *url.URL, error) {
	if len(requests) == 0 {
		return nil, nil, errors.New("nothing to send")
	}
	var server *url.URL
	shots := make([]shot, len(requests))
	for i, r := range requests {
		u, err := url.Parse(r.URL)
		switch {
		case err != nil:
			return nil, nil, err
		case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
			return nil, nil, fmt.Errorf("%s: not a URL of a server: write https://host:port/path", r.URL)
		case server != nil && (server.Host != u.Host || server.Scheme != u.Scheme):
			return nil, nil, fmt.Errorf("%s: not on %s://%s, where the others go", r.URL, server.Scheme, server.Host)
		}
		server, shots[i] = u, newShot(u, r.Body)
	}
	return shots, server, nil
}

// Close closes the connections.
func (g *Generator) Close() {
	for _, w := range g.workers {
		w.close()
	}
}

// Run sends requests at a pace and returns the results. It ends early when ctx is done.
func (g *Generator) Run(ctx context.Context, p Pace) *Measurement {
	ctx, cancel := context.WithTimeout(ctx, p.Duration)
	defer cancel()
	var next func() (time.Time, bool)
	var schedule *schedule
	if p.Rate > 0 {
		schedule = startSchedule(ctx, p)
		next = schedule.next
	} else {
		next = func() (time.Time, bool) { return time.Now(), ctx.Err() == nil }
	}
	start := time.Now()
	results := make([]*Measurement, len(g.workers))
	var turn atomic.Int64
	var working sync.WaitGroup
	for i, w := range g.workers {
		results[i] = newMeasurement()
		working.Go(func() {
			for {
				due, more := next()
				if !more {
					return
				}
				n := int(turn.Add(1)-1) % len(g.shots)
				verdict, err := w.shoot(ctx, &g.shots[n], n)
				results[i].add(verdict, err, time.Since(due))
				if err == nil && results[i].Bodies[verdict] == nil {
					results[i].Bodies[verdict] = w.known[n].body
				}
				if w.connection == nil && err != nil {
					// A server that is gone is not to be stormed.
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	working.Wait()
	total := newMeasurement()
	total.Elapsed = time.Since(start)
	for _, r := range results {
		total.merge(r)
	}
	if schedule != nil {
		total.Unsent = schedule.unsent()
	}
	return total
}

// A schedule hands out the times at which requests are due, each when it has come.
type schedule struct {
	pace  Pace
	start time.Time
	due   chan time.Time
	sent  int
	end   time.Time
}

func startSchedule(ctx context.Context, p Pace) *schedule {
	s := &schedule{pace: p, start: time.Now(), due: make(chan time.Time)}
	go func() {
		defer func() {
			s.end = time.Now()
			close(s.due)
		}()
		sleep, awake := newSleeper()
		defer awake()
		for total := int(p.Rate * p.Duration.Seconds()); s.sent < total; s.sent++ {
			at := s.start.Add(time.Duration(float64(s.sent) / p.Rate * float64(time.Second)))
			for left := time.Until(at); left > 0 && ctx.Err() == nil; left = time.Until(at) {
				sleep(min(left, longestSleep))
			}
			select {
			case s.due <- at:
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}

// longestSleep is how long a schedule may take to notice that it is over.
const longestSleep = 50 * time.Millisecond

func (s *schedule) next() (time.Time, bool) {
	due, more := <-s.due
	return due, more
}

// unsent counts the requests that were due, but had no free connection before the end. Call it
// after the last request.
func (s *schedule) unsent() int {
	lasted := min(s.end.Sub(s.start), s.pace.Duration)
	return max(int(s.pace.Rate*lasted.Seconds())-s.sent, 0)
}
