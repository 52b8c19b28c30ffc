// Package usher is the contract between doors and deciders: a door turns
// a protocol into a [Request], a [Decider] turns the Request into a [Decision], and
// the door turns that into the protocol's answer.
//
// A Go program with a webhook of its own implements Decider and mounts it:
//
//	http.Handle("/validate", admission.Validate(usher.DeciderFunc(decide), admission.Options{}))
//
// Package webhook serves that to API servers; docs/sdk.md is the guide.
//
// Usher's own policies are deciders too. Read on in this order: package rule (the one
// form that every kind of policy compiles to), fact (data that a rule needs and its
// request does not carry), engine (which runs rules), and live, which keeps an engine
// current with the policies of a folder or a cluster.
package usher
