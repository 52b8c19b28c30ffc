package docs_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
)

// TestFieldsOfExemptionsAreDocumented compares the API types with the reference.
func TestFieldsOfExemptionsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("exemptions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, reference, found := strings.Cut(string(text), "## Reference\n")
	if !found {
		t.Fatal("there is no reference")
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[v1alpha1.PolicyExemptionSpec](), reflect.TypeFor[v1alpha1.PolicyRef](), reflect.TypeFor[v1alpha1.PolicyExemptionStatus](),
	} {
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !strings.Contains(reference, "`"+name+"`") {
				t.Errorf("%s: the field %s is not in the reference", of.Name(), name)
			}
		}
	}
	for _, word := range []string{
		v1alpha1.ConditionValid, v1alpha1.ConditionExpiresSoon, v1alpha1.ConditionUnused, v1alpha1.ReasonExpired, v1alpha1.ReasonNotEffective,
		string(v1alpha1.ExemptionActionSkip), string(v1alpha1.ExemptionActionWarn), string(v1alpha1.ExemptionActionAudit),
	} {
		if !strings.Contains(reference, "`"+word+"`") {
			t.Errorf("%s is not in the reference", word)
		}
	}
}
