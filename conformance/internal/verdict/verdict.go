// Package verdict knows what has to become of each spec.
package verdict

import (
	"fmt"
	"maps"
	"slices"

	"github.com/usher-dev/usher/conformance/internal/spec"
)

// aboutAnswers has the specs of Kubernetes 1.36 by name, and whether passing depends on what
// the server answers. The others are about the API server, which does not call the server
// in them, or whose calls must fail.
var aboutAnswers = map[string]bool{
	"AdmissionWebhook listing mutating webhooks should work":                                                       true,
	"AdmissionWebhook listing validating webhooks should work":                                                     true,
	"AdmissionWebhook patching/updating a mutating webhook should work":                                            true,
	"AdmissionWebhook patching/updating a validating webhook should work":                                          true,
	"AdmissionWebhook should be able to create and update mutating webhook configurations with match conditions":   false,
	"AdmissionWebhook should be able to create and update validating webhook configurations with match conditions": false,
	"AdmissionWebhook should be able to deny attaching pod":                                                        true,
	"AdmissionWebhook should be able to deny custom resource creation, update and deletion":                        true,
	"AdmissionWebhook should be able to deny pod and configmap creation":                                           true,
	"AdmissionWebhook should deny crd creation":                                                                    true,
	"AdmissionWebhook should honor timeout":                                                                        true,
	"AdmissionWebhook should include webhook resources in discovery documents":                                     false,
	"AdmissionWebhook should mutate configmap":                                                                     true,
	"AdmissionWebhook should mutate custom resource":                                                               true,
	"AdmissionWebhook should mutate custom resource with different stored version":                                 true,
	"AdmissionWebhook should mutate custom resource with pruning":                                                  true,
	"AdmissionWebhook should mutate everything except 'skip-me' configmaps":                                        true,
	"AdmissionWebhook should mutate pod and apply defaults after mutation":                                         true,
	"AdmissionWebhook should not be able to mutate or prevent deletion of webhook configuration objects":           false,
	"AdmissionWebhook should reject mutating webhook configurations with invalid match conditions":                 false,
	"AdmissionWebhook should reject validating webhook configurations with invalid match conditions":               false,
	"AdmissionWebhook should unconditionally reject operations on fail closed webhook":                             false,
	"CustomResourceConversionWebhook should be able to convert a non homogeneous list of CRs":                      true,
	"CustomResourceConversionWebhook should be able to convert from CR v1 to CR v2":                                true,
}

// Check compares the specs that upstream has with those that are known here: a spec that is
// gone would not be missed, and of a new one nobody has said what it shows.
func Check(specs []spec.Spec) error {
	unknown, gone := []string{}, maps.Clone(aboutAnswers)
	for _, s := range specs {
		if _, known := aboutAnswers[s.Name]; !known {
			unknown = append(unknown, s.Name)
		}
		delete(gone, s.Name)
	}
	if len(unknown)+len(gone) > 0 {
		return fmt.Errorf("compare specs with those that are known: new are %q, gone are %q: bring the table in internal/verdict up to date",
			unknown, slices.Sorted(maps.Keys(gone)))
	}
	return nil
}

// A Standard says whether a server has to pass a spec; otherwise it has to fail it.
type Standard func(spec.Spec) bool

// Conformant servers pass everything.
func Conformant(spec.Spec) bool { return true }

// Indifferent servers pass what does not depend on their answers.
func Indifferent(s spec.Spec) bool { return !aboutAnswers[s.Name] }

// Met tells whether a result is what the standard requires. A spec that was interrupted or
// skipped neither passed nor failed.
func (s Standard) Met(result spec.Result) bool {
	if s(result.Spec) {
		return result.State == spec.Passed
	}
	return result.State == spec.Failed
}
