package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// helloWithin bounds how long a connection may take to say whom it is for.
const helloWithin = 10 * time.Second

// ServeNetwork is the network of services, until ctx is done: it leads each TLS connection
// to the pod behind the service that the client names in its greeting, NAME.NAMESPACE.svc.
// What cannot be led anywhere is closed, as if nobody listened.
func (n *Node) ServeNetwork(ctx context.Context, listener net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	var open sync.WaitGroup
	defer open.Wait()
	for {
		near, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept connection to a service: %w", err)
		}
		open.Go(func() { n.carry(ctx, near) })
	}
}

func (n *Node) carry(ctx context.Context, near net.Conn) {
	defer func() { _ = near.Close() }()
	defer context.AfterFunc(ctx, func() { _ = near.Close() })()
	_ = near.SetReadDeadline(time.Now().Add(helloWithin))
	host, hello := greeting(near)
	_ = near.SetReadDeadline(time.Time{})
	address, err := n.resolve(host)
	if err != nil {
		return
	}
	far, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	ended := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(far, io.MultiReader(bytes.NewReader(hello), near))
		ended <- struct{}{}
	}()
	go func() {
		_, _ = io.Copy(near, far)
		ended <- struct{}{}
	}()
	<-ended
}

// greeting reads the first message of a TLS client: the name of the server that it asks for,
// and all bytes that were read.
func greeting(connection net.Conn) (string, []byte) {
	l := &listening{Conn: connection}
	var host string
	// A handshake that is given up as soon as the name is known, and of which the client
	// hears nothing.
	_ = tls.Server(l, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		host = hello.ServerName
		return nil, errors.New("heard enough")
	}}).Handshake()
	return host, l.heard.Bytes()
}

// listening is a connection that remembers what was read and says nothing.
type listening struct {
	net.Conn
	heard bytes.Buffer
}

func (l *listening) Read(buffer []byte) (int, error) {
	read, err := l.Conn.Read(buffer)
	l.heard.Write(buffer[:read])
	return read, err
}

func (*listening) Write(text []byte) (int, error) { return len(text), nil }
