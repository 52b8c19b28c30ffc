package audit

import (
	"context"
	"time"
)

// Next judges one projection, and reports whether there was one.
func (a *Auditor) Next() bool { return a.next(context.Background()) }

// Spend returns a function that counts time of a processor and sleeps as long as a bound requires. All
// that it returns share the bound.
func Spend(cores float64) func() func(time.Duration) {
	p := &pacer{cores: cores}
	return func() func(time.Duration) { return (&pace{pacer: p}).spend }
}

// Pack packs a text that is like another one, and Unpack does the opposite.
func Pack(like, text []byte) []byte { return newPattern(like).pack(nil, text) }

// Unpack returns what was packed.
func Unpack(like, packed []byte) ([]byte, error) { return newPattern(like).unpack(packed) }
