package policies

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/library"
	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/dir"
)

// RegisterFlag adds the flag -p, which names files and folders with policies. More is added to the
// help after a semicolon; it can be empty.
func RegisterFlag(flags *pflag.FlagSet, paths *[]string, more string) {
	flags.StringArrayVarP(paths, "policies", "p", nil, "file or folder with policies, - for the standard input (repeatable)"+more)
}

// Read reads the policies in files and folders; - is the standard input. It prints to s.Err which
// files of folders have none. Finding no policy at all is not an error.
func Read(cmd *cobra.Command, s cli.Streams, paths []string) (source.Set, error) {
	if err := cli.ReadsStdinOnce(paths); err != nil {
		return source.Set{}, err
	}
	files := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path == "-" })
	set, err := dir.Load(files...)
	if err != nil || len(files) == len(paths) {
		noteSkipped(cmd, s, set)
		return set, err
	}
	content, err := io.ReadAll(s.In)
	if err != nil {
		return source.Set{}, fmt.Errorf("read policies: %w", err)
	}
	typed := dir.Parse("-", content)
	set.Policies = append(set.Policies, typed.Policies...)
	set.Unreadable = append(set.Unreadable, typed.Unreadable...)
	noteSkipped(cmd, s, set)
	return set, nil
}

// ReadSome is like [Read], but finding no policy is an error.
func ReadSome(cmd *cobra.Command, s cli.Streams, paths []string) (source.Set, error) {
	set, err := Read(cmd, s, paths)
	if err == nil && len(set.Policies) == 0 && len(set.Unreadable) == 0 {
		err = fmt.Errorf("no policies in %s: expected YAML or JSON files with objects of %s",
			strings.Join(paths, ", "), "policy.kcloudlabs.io/v1alpha1 or usher.dev/v1alpha1")
		if i := slices.IndexFunc(set.Skipped, manifest.HasCases); i >= 0 {
			err = fmt.Errorf("%w; %s has test cases: 'usher test %[2]s' runs them", err, set.Skipped[i])
		}
	}
	return set, err
}

// noteSkipped prints which files have no policies, if others have some. It ignores test cases and
// descriptions of packs, which may be in the same folder as their policies.
func noteSkipped(cmd *cobra.Command, s cli.Streams, set source.Set) {
	if len(set.Policies)+len(set.Unreadable) == 0 {
		return
	}
	if files := slices.DeleteFunc(slices.Clone(set.Skipped), isBesidePolicies); len(files) > 0 {
		cli.Notef(cmd, s, "note", "skipped %s without policies: %s", cli.Count(len(files), "file", "files"), strings.Join(files, ", "))
	}
}

func isBesidePolicies(file string) bool {
	return filepath.Base(file) == library.File || manifest.HasCases(file)
}

// Paint returns the problem with its severity in colour, and below it the place in the text of the
// field.
func Paint(problem rule.Problem, p cli.Palette) string {
	colour := p.Yellow
	if problem.Severity == rule.Error {
		colour = p.Red
	}
	severity := string(problem.Severity) + ":"
	text := strings.Replace(printable.Line(problem.String()), severity, cli.Paint(colour, severity), 1)
	if picture := problem.At.Picture(); picture != "" {
		text += "\n    " + strings.ReplaceAll(picture, "\n", "\n    ")
	}
	return text
}
