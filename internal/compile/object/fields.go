package object

import (
	"context"
	"time"

	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

const (
	// maxFields is how many fields are found for one rule and request.
	maxFields = 16
	// fieldsTimeout limits how long that takes: a denial without field is better than none in time.
	fieldsTimeout = time.Second
)

// A fields finds the fields of validations that fail and name none.
type fields struct {
	ctx     context.Context //nolint:containedctx // It lasts for one run.
	program *admission.Program
	in      *admission.Input
	found   int
	took    time.Duration
}

// of returns the field of a validation with the params that have just been evaluated, or "".
func (f *fields) of(index int) string {
	if f.found++; f.found > maxFields || f.took >= fieldsTimeout {
		return ""
	}
	ctx, cancel := context.WithTimeout(f.ctx, fieldsTimeout-f.took)
	defer cancel()
	start := time.Now()
	defer func() { f.took += time.Since(start) }()
	return f.program.Field(ctx, f.in, index)
}
