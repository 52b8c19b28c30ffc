package condition

import (
	"context"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

// idle is a template without its block. It names the block.
type idle string

// Run has no objection.
func (idle) Run(context.Context, *rule.Input) (rule.Outcome, error) { return rule.Outcome{}, nil }

// DependsOn implements [rule.Dependent].
func (idle) DependsOn(usher.Operation) rule.Dependencies { return 0 }

// String reports the missing block.
func (i idle) String() string { return string(i) + " without content" }

func (idle) open() bool { return false }

func (idle) render() string { return "validate: {}" }

func (idle) params(*rule.Input) (map[string]any, error) { return nil, nil }
