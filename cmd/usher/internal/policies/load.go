package policies

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/compile"
	"github.com/usher-dev/usher/rule"
	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/dir"
)

// Read is [Load], of the standard input if the one path is -.
func Read(paths []string, stdin io.Reader) (source.Set, error) {
	if !slices.Equal(paths, []string{"-"}) {
		return Load(paths)
	}
	content, err := io.ReadAll(stdin)
	if err != nil {
		return source.Set{}, fmt.Errorf("read policies: %w", err)
	}
	return somePolicies(dir.Parse("-", content), paths)
}

// Load reads policies; finding none is an error.
func Load(paths []string) (source.Set, error) {
	set, err := dir.Load(paths...)
	if err != nil {
		return source.Set{}, err
	}
	return somePolicies(set, paths)
}

func somePolicies(set source.Set, paths []string) (source.Set, error) {
	if len(set.Policies) == 0 && len(set.Unreadable) == 0 {
		return source.Set{}, fmt.Errorf("no policies in %s: expected YAML or JSON files with objects of %s",
			strings.Join(paths, ", "), "policy.kcloudlabs.io/v1alpha1 or usher.dev/v1alpha1")
	}
	return set, nil
}

// Problems compiles a set and returns all that is wrong with it, sorted and not nil.
func Problems(set source.Set, limits rule.Limits) []rule.Problem {
	problems := []rule.Problem{}
	for _, u := range set.Unreadable {
		problems = append(problems, unreadable(u.Position, u.Err))
	}
	_, found := compile.Options{Limits: limits}.Policies(context.Background(), set.Policies)
	problems = append(problems, found...)
	rule.SortProblems(problems)
	return problems
}

func unreadable(at api.Position, err error) rule.Problem {
	return rule.Problem{Severity: rule.Error, File: at.File, Line: at.Line, What: err.Error()}
}

// Paint returns the problem in one line, with its severity in colour.
func Paint(problem rule.Problem, p cli.Palette) string {
	colour := p.Yellow
	if problem.Severity == rule.Error {
		colour = p.Red
	}
	severity := string(problem.Severity) + ":"
	return strings.Replace(problem.String(), severity, cli.Paint(colour, severity), 1)
}
