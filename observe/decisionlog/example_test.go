package decisionlog_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/observe/decisionlog"
)

// Denials are logged.
func ExampleWrap() {
	var lines strings.Builder
	decider := decisionlog.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) {
		return usher.Denied("no"), nil
	}), slog.New(slog.NewTextHandler(&lines, nil)))

	decision, err := decider.Decide(context.Background(), &usher.Request{Phase: usher.Validate, Operation: usher.Create, Name: "cart"})
	fmt.Println(decision.Verdict, err, strings.Count(lines.String(), "\n"))
	// Output: deny <nil> 1
}
