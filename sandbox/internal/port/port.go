// Package port finds ports on the loopback address for servers that are started later, or
// more than once.
package port

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports below the range for outgoing connections: a free one stays free until a program requests it
// by number.
const (
	lowest  = 20_000
	highest = 32_000
	tries   = 100
)

// Free returns a port on which no process listens.
func Free() (string, error) {
	for range tries {
		port := strconv.Itoa(lowest + rand.IntN(highest-lowest))
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			continue
		}
		return port, listener.Close()
	}
	return "", errors.New("find free port: all that were tried are in use")
}
