package source_test

import (
	"context"
	"fmt"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/source"
)

// A constant is a source whose policies never change.
type constant []api.Policy

func (c constant) Run(ctx context.Context, update func(source.Set)) error {
	update(source.Set{Policies: c})
	<-ctx.Done()
	return nil
}

// A program can be a source itself.
func ExampleSource() {
	ctx, stop := context.WithCancel(context.Background())
	var s source.Source = constant{{}}
	err := s.Run(ctx, func(set source.Set) {
		fmt.Println(len(set.Policies))
		stop()
	})
	fmt.Println(err)
	// Output:
	// 1
	// <nil>
}
