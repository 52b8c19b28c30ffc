package limit

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

const (
	// maxPending bounds the connections of which nothing is known but that they are there:
	// with a TLS handshake, the head of a request or its body still to come.
	maxPending = 256
	// maxCalm bounds the other ones on which nobody has proved anything.
	maxCalm = 768
)

// Conns bounds the connections of a server. Of those on which nobody has proved who they are
// the oldest is closed if there are too many, of the address that has most of them. The zero
// value is ready to use.
type Conns struct {
	mu            sync.Mutex
	pending, calm group
	// closed counts those that were closed.
	closed int64
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
	// asked tells that a request has begun on it.
	asked, proven, closed bool
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
func (c *conn) pend() { c.enter(func() *group { return &c.conns.pending }) }

// settle notes that a whole request has come.
func (c *conn) settle() { c.enter(func() *group { return &c.conns.calm }) }

// idle notes that nothing is asked at the moment. A connection of HTTP/2 is idle before it
// has asked anything.
func (c *conn) idle() {
	c.enter(func() *group {
		if !c.asked {
			return &c.conns.pending
		}
		return &c.conns.calm
	})
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
	c.in.remove(c)
	g.add(c)
	limit := maxPending
	if g == &c.conns.calm {
		limit = maxCalm
	}
	if g == nil || g.size <= limit {
		return nil
	}
	surplus = g.oldest()
	c.conns.closed++
	return surplus
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.enter(func() *group { c.closed = true; return nil })
	return c.Conn.Close()
}

// A group is connections by address, the oldest of each first. A nil *group is no group.
type group struct {
	by   map[string]*list.List
	size int
}

func (g *group) add(c *conn) {
	c.in = g
	if g == nil {
		return
	}
	if g.by == nil {
		g.by = map[string]*list.List{}
	}
	if g.by[c.address] == nil {
		g.by[c.address] = list.New()
	}
	c.place = g.by[c.address].PushBack(c)
	g.size++
}

func (g *group) remove(c *conn) {
	if g == nil {
		return
	}
	all := g.by[c.address]
	all.Remove(c.place)
	if g.size--; all.Len() == 0 {
		delete(g.by, c.address)
	}
}

// oldest returns the oldest connection of the address that has most.
func (g *group) oldest() *conn {
	var most *list.List
	for _, all := range g.by {
		if most == nil || all.Len() > most.Len() {
			most = all
		}
	}
	return most.Front().Value.(*conn)
}
