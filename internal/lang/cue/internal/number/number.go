// Package number is how numbers get from JSON trees into CUE and back.
package number

import (
	"errors"
	"math"
	"math/big"
)

// Decode returns f as CUE reads the JSON that encoding/json writes for it: an int64 or *big.Int
// where that has neither fraction nor exponent.
func Decode(f float64) any {
	if f != math.Trunc(f) || math.Abs(f) >= 1e21 {
		return f
	}
	if math.Abs(f) < 1<<63 {
		return int64(f)
	}
	n, _ := big.NewFloat(f).Int(nil)
	return n
}

// Encode returns a number of CUE as API servers read it: an int64 where it is whole and one can
// hold it, otherwise a float64.
func Encode(f float64) (any, error) {
	if f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return int64(f), nil
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, errors.New("a number in the result is too large")
	}
	return f, nil
}
