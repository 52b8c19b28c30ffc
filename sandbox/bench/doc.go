// Package bench compares Usher with the authorizer of Kubernetes for RBAC, on rules that say
// the same. It is a module of its own, because that authorizer is part of k8s.io/kubernetes:
//
//	CGO_ENABLED=0 go test -run Same -bench . .
package bench
