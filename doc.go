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
// Usher's own policies are deciders, too: package live makes one of the policies of a folder or a
// cluster, which docs/embedding.md shows. Packages door/admission, door/apiserver, door/transport and
// plugin are the doors; docs/architecture.md is the way through the code.
package usher
