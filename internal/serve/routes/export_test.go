package routes

import (
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// Answers reports whether a path is answered, and as what entry.
func (p *Routes) Answers(path string) (entry string, ok bool) {
	at, ok := p.find(path)
	return at.entry, ok
}

// Chosen are the paths to register: their name, and that of an entry.
func (p *Routes) Chosen(entry string) (name, path string) { return p.Name(), p.Path(entry) }

// Covers reports whether a request is one that API servers send to an entry.
var Covers = (*Routes).covers

// Matches reports whether rules are for a resource.
func Matches(rules []admissionv1.RuleWithOperations, group, resource, subresource string) bool {
	c := cover{}
	c.add(rules, time.Now())
	return c.match(group, resource, subresource)
}
