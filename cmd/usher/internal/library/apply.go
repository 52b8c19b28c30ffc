package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/library"
)

// A Target is where policies are installed.
type Target interface {
	// Installed returns the policy of that name, nil if there is none.
	Installed(ctx context.Context, p *library.Policy) (map[string]any, error)
	// Write writes the manifest of a policy in place of what Installed has returned, unless it only tries
	// to, and says what it did.
	Write(ctx context.Context, p *library.Policy, manifest []byte, installed map[string]any) (string, error)
	// Of returns the names of the installed policies of a pack.
	Of(ctx context.Context, pack string) ([]string, error)
	// Remove returns the command that removes a policy.
	Remove(name string) string
	// Wait returns the command that waits until policies that were written are enforced; empty if there is none.
	Wait(written []*library.Policy) string
}

// A Plan is what is installed.
type Plan struct {
	// Packs are all packs that there are.
	Packs []library.Pack
	// Policies have the settings at the same index.
	Policies []library.Policy
	Settings []library.Settings
	// Downgrade replaces policies that are of a later version of their pack.
	Downgrade bool
	// Manifests has the manifests that are written printed, also if they are only tried, and what is said of each policy
	// goes to the errors.
	Manifests bool
	// shown are the changes that have been printed, each with its first policy.
	shown map[string]string
	// fresh, changed and unchanged count the policies that were installed, and written are those that were not as they are.
	fresh, changed, unchanged int
	written                   []*library.Policy
}

// summary counts what was installed; it is empty for one policy, of which everything was said.
func (plan *Plan) summary(refused int) string {
	if len(plan.Policies) == 1 {
		return ""
	}
	text := fmt.Sprintf("%d policies: %d new, %d changed, %d unchanged", len(plan.Policies), plan.fresh, plan.changed, plan.unchanged)
	if refused > 0 {
		text += fmt.Sprintf(", %d not installed", refused)
	}
	return text + "\n"
}

// Install writes policies to a target, with the bindings of those that are installed already, and
// prints what changes. It continues after a policy that cannot be installed, unless none can be.
func Install(ctx context.Context, s cli.Streams, target Target, plan *Plan) error {
	refused := 0
	plan.shown = map[string]string{}
	said := s.Out
	if plan.Manifests {
		said = s.Err
	}
	for i := range plan.Policies {
		line, err := plan.install(ctx, s, target, i)
		switch {
		case err != nil && (ctx.Err() != nil || errors.As(err, new(*unusableError))):
			return fmt.Errorf("install policy %s: %w", plan.Policies[i].Name, err)
		case err != nil:
			refused++
			fmt.Fprintf(s.Err, "usher: policy %s is not installed: %v\n", plan.Policies[i].Name, err)
		default:
			fmt.Fprintln(said, line)
		}
	}
	warnOfRest(ctx, s, target, plan)
	fmt.Fprint(s.Err, plan.summary(refused))
	if wait := target.Wait(plan.written); wait != "" && len(plan.written) > 0 {
		fmt.Fprintf(s.Err, "to wait until they are enforced: %s\n", wait)
	}
	if refused > 0 {
		return cli.ErrNegative
	}
	return nil
}

func (plan *Plan) install(ctx context.Context, s cli.Streams, target Target, i int) (string, error) {
	p := &plan.Policies[i]
	installed, err := target.Installed(ctx, p)
	if err != nil {
		return "", err
	}
	if installed == nil {
		manifest, err := p.Manifest(plan.Settings[i])
		if err != nil {
			return "", err
		}
		return plan.write(ctx, s, target, p, manifest, nil)
	}
	u, err := newUpdate(p, installed, plan.Settings[i])
	if err != nil {
		return "", err
	}
	changes, err := u.diff()
	switch {
	case err != nil:
		return "", err
	case changes == "":
		plan.unchanged++
		return p.Name + " unchanged", nil
	case u.older() && !plan.Downgrade:
		return "", fmt.Errorf("version %s is installed, which is newer than %s of the pack: update usher, or go back with --downgrade", u.version, p.Version)
	}
	from := cmp.Or(u.version, "unknown") + " to "
	if u.version == p.Version {
		from = ""
	}
	fmt.Fprintf(s.Err, "%s: version %s%s\n", p.Name, from, p.Version)
	for _, line := range u.summary() {
		fmt.Fprintf(s.Err, "  %s\n", line)
	}
	changed := lines(changes)
	if first := plan.shown[changed]; first != "" {
		fmt.Fprintf(s.Err, "  changes the same lines as %s\n", first)
	} else {
		plan.shown[changed] = p.Name
		fmt.Fprint(s.Err, indent(strings.TrimRight(changes, "\n")))
	}
	return plan.write(ctx, s, target, p, u.manifest, installed)
}

func (plan *Plan) write(ctx context.Context, s cli.Streams, target Target, p *library.Policy, manifest []byte, installed map[string]any) (string, error) {
	line, err := target.Write(ctx, p, manifest, installed)
	if err != nil {
		return "", err
	}
	if installed == nil {
		plan.fresh++
	} else {
		plan.changed++
	}
	plan.written = append(plan.written, p)
	if plan.Manifests {
		fmt.Fprintf(s.Out, "---\n%s", manifest)
	}
	return line, nil
}

// lines returns the lines of a diff that it adds and removes, without where they are.
func lines(changes string) string {
	var b strings.Builder
	for line := range strings.Lines(changes) {
		if strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") {
			b.WriteString(line)
		}
	}
	return b.String()
}
