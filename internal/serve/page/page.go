// Package page writes what /readyz?verbose says.
package page

import (
	"fmt"
	"strings"
)

// A Page is what /readyz?verbose says. Everybody may read which parts work, and numbers. Names are
// those of namespaces, policies, other objects and servers, and errors, which quote them.
type Page struct {
	strings.Builder

	// Named says that names are written.
	Named bool

	failing []string
}

// Fail records that a part fails, for the first line of the page. Everybody may read it.
func (p *Page) Fail(part string) { p.failing = append(p.failing, part) }

// Text returns what was written, below a line that says what fails, if anything does.
func (p *Page) Text() string {
	if len(p.failing) == 0 {
		return p.String()
	}
	return "failing: " + strings.Join(p.failing, ", ") + "\n" + p.String()
}

// Namef writes what has names.
func (p *Page) Namef(format string, args ...any) {
	if p.Named {
		fmt.Fprintf(p, format, args...)
	}
}

// Either writes what has names, or a line instead.
func (p *Page) Either(format, instead string, args ...any) {
	if !p.Named {
		p.WriteString(instead)
	}
	p.Namef(format, args...)
}

// Reason writes why the line before is as it is.
func (p *Page) Reason(why any) { p.Either("  %v\n", "  reason withheld\n", why) }

// List writes how many there are of something, if there are any, and which.
func List[T any](p *Page, what string, all []T) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(p, "%s: %d\n", what, len(all))
	for _, one := range all {
		p.Namef("  %v\n", one)
	}
}
