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
	// maxPending limits the connections without a complete request: those in a TLS handshake, or
	// before the end of a head or body.
	maxPending = 256
	// maxCalm limits the other unauthenticated connections.
	maxCalm = 512
)

// Conns limits the connections of a server. Above the limit it closes an unauthenticated one: the
// oldest of the address whose pending connections together have waited longest or, if nothing is
// pending, of the address with the most connections. The zero value is ready to use.
type Conns struct {
	mu            sync.Mutex
	pending, calm group
	// closed counts closed connections.
	closed int64
	// began is when the first connection came: times are counted from then.
	began time.Time
}

// Guard makes a server limit its connections, and returns the listener to serve. Call it after the
// handler of the server is set.
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

// Open returns the number of unauthenticated connections: pending ones, and others. Closed is how
// many were closed.
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
	// asked means that a request has started on it, and settled that one is complete.
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

// idle records that there is no current request. An HTTP/2 connection is idle before its first
// request.
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

// enter adds the connection to the end of a group, and closes another one if there are too many.
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
	if c.in == g {
		if g == &c.conns.calm {
			g.by[c.address].MoveToBack(c.place)
		}
		return nil
	}
	now := c.conns.now()
	c.in.remove(c)
	g.add(c, now)
	switch {
	case g == &c.conns.pending && g.size > maxPending:
		// Legitimate callers have many connections, but none is pending for long.
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
