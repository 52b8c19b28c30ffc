package limit

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxPending bounds the connections of which nothing is known but that they are there:
	// with a TLS handshake, the head of a request or its body still to come.
	maxPending = 256
	// maxCalm bounds the other ones on which nobody has proved anything.
	maxCalm = 512
)

// Conns bounds the connections of a server. Of those on which nobody has proved who they are
// one is closed if there are too many: the oldest of the address that has kept the server
// waiting longest on all of its connections together or, where nothing is pending, of the one
// that has most. The zero value is ready to use.
type Conns struct {
	mu            sync.Mutex
	pending, calm group
	// closed counts those that were closed.
	closed int64
	// began is when the first connection came: times are counted from then.
	began time.Time
}

// Guard makes a server bound its connections, and returns the listener that it has to
// serve. Call it when the handler of the server is set.
func (c *Conns) Guard(s *http.Server, l net.Listener) net.Listener {
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connOf(r.Context()).ask()
		next.ServeHTTP(w, r)
	})
	s.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		if counted := unwrap(nc); counted != nil {
			return context.WithValue(ctx, connKey{}, counted)
		}
		return ctx
	}
	s.ConnState = func(nc net.Conn, state http.ConnState) {
		switch counted := unwrap(nc); state {
		case http.StateActive:
			counted.pend()
		case http.StateIdle:
			counted.idle()
		}
	}
	return &listener{l, c}
}

// now returns the time in microseconds. It belongs to mu.
func (c *Conns) now() int64 {
	if c.began.IsZero() {
		c.began = time.Now()
	}
	return time.Since(c.began).Microseconds()
}

// Open returns how many connections nobody has proved anything on: pending ones, and others.
// Closed is how many were too many.
func (c *Conns) Open() (pending, calm int, closed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending.size, c.calm.size, c.closed
}

type listener struct {
	net.Listener
	conns *Conns
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	counted := &conn{Conn: nc, conns: l.conns, address: addressOf(nc.RemoteAddr().String())}
	counted.pend()
	return counted, nil
}

// A conn is a connection that is counted. A nil *conn is none that is.
type conn struct {
	net.Conn
	conns   *Conns
	address string

	// What follows belongs to conns.mu.
	// in is the group that the connection is in, nil if it is not counted.
	in    *group
	place *list.Element
	// since is when it came there, in microseconds.
	since int64
	// asked tells that a request has begun on it, and settled that one has come as a whole.
	asked, settled, proven, closed bool
}

type connKey struct{}

func connOf(ctx context.Context) *conn {
	counted, _ := ctx.Value(connKey{}).(*conn)
	return counted
}

func unwrap(nc net.Conn) *conn {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	counted, _ := nc.(*conn)
	return counted
}

// pend notes that something is still to come.
func (c *conn) pend() { c.enter(c.group) }

// settle notes that a whole request has come.
func (c *conn) settle() {
	c.enter(func() *group { c.settled = true; return c.group() })
}

// idle notes that nothing is asked at the moment. A connection of HTTP/2 is idle before it
// has asked anything.
func (c *conn) idle() {
	c.enter(func() *group { c.settled = c.settled || c.asked; return c.group() })
}

// group is where the connection belongs.
func (c *conn) group() *group {
	if c.settled {
		return &c.conns.calm
	}
	return &c.conns.pending
}

// ask notes that a request has begun.
func (c *conn) ask() { c.enter(func() *group { c.asked = true; return c.in }) }

// prove notes that the caller has proved who it is: the connection is not counted any more.
func (c *conn) prove() { c.enter(func() *group { c.proven = true; return nil }) }

// enter puts the connection at the end of a group, and closes another one if that is too many.
func (c *conn) enter(choose func() *group) {
	if c == nil {
		return
	}
	if surplus := c.move(choose); surplus != nil {
		_ = surplus.Close()
	}
}

func (c *conn) move(choose func() *group) (surplus *conn) {
	c.conns.mu.Lock()
	defer c.conns.mu.Unlock()
	g := choose()
	if c.closed || c.proven {
		g = nil
	}
	if c.in == g && g != &c.conns.calm {
		return nil
	}
	now := c.conns.now()
	c.in.remove(c)
	g.add(c, now)
	switch {
	case g == &c.conns.pending && g.size > maxPending:
		// Those who ask in earnest have many connections, but none is pending for long.
		surplus = g.surplus(func(b *bucket) int64 { return int64(b.Len())*now - b.starts })
	case g == &c.conns.calm && g.size > maxCalm:
		surplus = g.surplus(func(b *bucket) int64 { return int64(b.Len()) })
	default:
		return nil
	}
	c.conns.closed++
	return surplus
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.enter(func() *group { c.closed = true; return nil })
	return c.Conn.Close()
}

// A group is connections by address. A nil *group is no group.
type group struct {
	by   map[string]*bucket
	size int
}

// A bucket is the connections of an address, the oldest first.
type bucket struct {
	list.List
	// starts is the sum of when they came, in microseconds.
	starts int64
}

func (g *group) add(c *conn, now int64) {
	c.in, c.since = g, now
	if g == nil {
		return
	}
	if g.by == nil {
		g.by = map[string]*bucket{}
	}
	b := g.by[c.address]
	if b == nil {
		b = &bucket{}
		g.by[c.address] = b
	}
	c.place = b.PushBack(c)
	b.starts += now
	g.size++
}

func (g *group) remove(c *conn) {
	if g == nil {
		return
	}
	b := g.by[c.address]
	b.Remove(c.place)
	b.starts -= c.since
	if g.size--; b.Len() == 0 {
		delete(g.by, c.address)
	}
}

// surplus returns the oldest connection of the address for which heft is greatest.
func (g *group) surplus(heft func(*bucket) int64) *conn {
	var most *bucket
	for _, b := range g.by {
		if most == nil || heft(b) > heft(most) {
			most = b
		}
	}
	return most.Front().Value.(*conn)
}
