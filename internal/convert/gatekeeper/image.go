package gatekeeper

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/usher-dev/usher/internal/convert"
)

// imageParts are the parts of a reference to an image that an AssignImage sets: a domain without the slash after it, a
// path, and a tag or a digest with the character before it. A part that is empty stays as it is.
type imageParts struct {
	Domain string `json:"assignDomain,omitempty"`
	Path   string `json:"assignPath,omitempty"`
	Tag    string `json:"assignTag,omitempty"`
}

// How Gatekeeper takes references to images apart: what is before the first slash is a domain if it has a dot or a
// colon, or is localhost; of the rest, the tag begins at the first colon or at sign.
const (
	domainOfImage = `^([^/]*[.:][^/]*|localhost)/`
	pathOfImage   = `^[^:@]*`
	tagOfImage    = `[:@](?s:.*)`
	// untagged is the domain and the path.
	untagged = `^(([^/]*[.:][^/]*|localhost)/)?[^:@]*`
)

// What Gatekeeper takes for parts of references.
var (
	domainText = regexp.MustCompile(`^(\w[\w-]*\.[\w.-]*\w|localhost)(:\d+)?$`)
	pathText   = regexp.MustCompile(`^[a-z0-9]+(([._/]|__|-*)[a-z0-9]+)*$`)
	tagText    = regexp.MustCompile(`^:\w[\w.-]{0,127}$|^@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}$`)
	isDomain   = regexp.MustCompile(domainOfImage)
)

// check returns an error about a field that Gatekeeper refuses.
func (p *imageParts) check() (field string, err error) {
	const parameters = "spec.parameters"
	switch {
	case *p == imageParts{}:
		return parameters, errors.New("it sets no part of an image")
	case p.Domain != "" && !domainText.MatchString(p.Domain):
		return parameters + ".assignDomain", fmt.Errorf("%q is no domain", p.Domain)
	case p.Path != "" && !pathText.MatchString(p.Path):
		return parameters + ".assignPath", fmt.Errorf("%q is no path", p.Path)
	case p.Domain == "" && isDomain.MatchString(p.Path):
		return parameters + ".assignPath", fmt.Errorf("%q begins with a domain", p.Path)
	case p.Tag != "" && !tagText.MatchString(p.Tag):
		return parameters + ".assignTag", fmt.Errorf("%q is no tag and no digest", p.Tag)
	}
	return "", nil
}

// change sets how images are changed.
func (p *imageParts) change(c *change) (field string, err error) {
	if field, err := p.check(); err != nil {
		return field, err
	}
	domain := p.Domain
	if domain != "" {
		domain += "/"
	}
	c.value = convert.Quote(domain + p.Path + p.Tag)
	c.revised = func(image string) string { return p.revised(image, domain) }
	return "", nil
}

// revised returns an expression for an image of which parts are set.
func (p *imageParts) revised(image, domain string) string {
	find := func(text, pattern string) string { return text + ".find(" + convert.Quote(pattern) + ")" }
	rest := image + ".substring(size(" + find(image, domainOfImage) + "))"
	switch {
	case p.Domain != "" && p.Path != "" && p.Tag != "":
		return convert.Quote(domain + p.Path + p.Tag)
	case p.Domain != "" && p.Path != "":
		return convert.Quote(domain+p.Path) + " + " + find(rest, tagOfImage)
	case p.Domain != "" && p.Tag != "":
		return convert.Quote(domain) + " + " + find(rest, pathOfImage) + " + " + convert.Quote(p.Tag)
	case p.Domain != "":
		return convert.Quote(domain) + " + " + rest
	case p.Path != "" && p.Tag != "":
		return find(image, domainOfImage) + " + " + convert.Quote(p.Path+p.Tag)
	case p.Path != "":
		return find(image, domainOfImage) + " + " + convert.Quote(p.Path) + " + " + find(rest, tagOfImage)
	}
	return find(image, untagged) + " + " + convert.Quote(p.Tag)
}
