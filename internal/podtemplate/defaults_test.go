package podtemplate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/usher-dev/usher/internal/podtemplate"
)

func TestDefaulted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, object, want string }{
		{
			"the policy follows from the tag", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"image":"nginx"},{"image":"nginx:1.27"},{"image":"nginx:latest"},{"image":"r.example:5000/a/nginx"}]}}`,
			`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"image":"nginx","imagePullPolicy":"Always"},{"image":"nginx:1.27","imagePullPolicy":"IfNotPresent"},
				{"image":"nginx:latest","imagePullPolicy":"Always"},{"image":"r.example:5000/a/nginx","imagePullPolicy":"Always"}]}}`,
		},
		{
			"a digest is no tag", `{"apiVersion":"v1","kind":"Pod","spec":{"initContainers":[{"image":"nginx@sha256:0"},{"image":"nginx:latest@sha256:0"},{"image":"no Name"},{}]}}`,
			`{"apiVersion":"v1","kind":"Pod","spec":{"initContainers":[{"image":"nginx@sha256:0","imagePullPolicy":"IfNotPresent"},{"image":"nginx:latest@sha256:0","imagePullPolicy":"Always"},
				{"image":"no Name","imagePullPolicy":"IfNotPresent"},{"imagePullPolicy":"IfNotPresent"}]}}`,
		},
		{
			"what is set stays, what is empty is not set", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"image":"nginx","imagePullPolicy":"Never"},{"image":"nginx","imagePullPolicy":""}]}}`,
			`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"image":"nginx","imagePullPolicy":"Never"},{"image":"nginx","imagePullPolicy":"Always"}]}}`,
		},
		{
			"workloads have templates", `{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"image":"a:1"}]}}}}}}`,
			`{"apiVersion":"batch/v1","kind":"CronJob","spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"image":"a:1","imagePullPolicy":"IfNotPresent"}]}}}}}}`,
		},
		{
			"a kind of others has no defaults", `{"apiVersion":"example.com/v1","kind":"Pod","spec":{"containers":[{"image":"a"}]}}`,
			`{"apiVersion":"example.com/v1","kind":"Pod","spec":{"containers":[{"image":"a"}]}}`,
		},
		{
			"what is no object stays", `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[null,1,{"image":2}],"initContainers":{}}}`,
			`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[null,1,{"image":2}],"initContainers":{}}}`,
		},
	} {
		object := tree(t, test.object)
		if diff := cmp.Diff(tree(t, test.want), podtemplate.Defaulted(object)); diff != "" {
			t.Errorf("%s:\n%s", test.reason, diff)
		}
		if diff := cmp.Diff(tree(t, test.object), object); diff != "" {
			t.Errorf("%s: the object was changed:\n%s", test.reason, diff)
		}
	}
}
