package manifest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/internal/manifest"
)

func TestEach(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason, text string
		want         []string
		err          string
	}{
		{reason: "an object is itself", text: `{apiVersion: v1, kind: Pod, metadata: {name: a}}`, want: []string{"v1 Pod a"}},
		{
			reason: "lists in lists, to any depth",
			text: `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: a}},
  {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: b}}]}]}]}`,
			want: []string{"v1 Pod a", "v1 Node b"},
		},
		{
			reason: "API servers leave the kind out in lists of one kind",
			text:   `{apiVersion: v1, kind: List, items: [{apiVersion: apps/v1, kind: DeploymentList, items: [{metadata: {name: a}}]}]}`,
			want:   []string{"apps/v1 Deployment a"},
		},
		{reason: "an empty list has nothing", text: `{apiVersion: v1, kind: List, items: []}`},
		{reason: "a kind may end so and be no list", text: `{apiVersion: example.com/v1, kind: PriceList, metadata: {name: a}}`, want: []string{"example.com/v1 PriceList a"}},
		{
			reason: "an error says where", err: "items[1]: items[0]: not an object",
			text: `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: a}}, {apiVersion: v1, kind: List, items: [a]}]}`,
			want: []string{"v1 Pod a"},
		},
		{
			reason: "so does one of the visitor", err: "items[0]: refused",
			text: `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: refused}}]}`,
		},
	} {
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(tt.text), &tree); err != nil {
			t.Fatal(err)
		}
		var got []string
		err := manifest.Each(tree, func(object map[string]any) error {
			name := object["metadata"].(map[string]any)["name"]
			if name == "refused" {
				return errors.New("refused")
			}
			got = append(got, fmt.Sprint(object["apiVersion"], " ", object["kind"], " ", name))
			return nil
		})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.reason, diff)
		}
		if text := fmt.Sprint(err); err != nil && text != tt.err || err == nil && tt.err != "" {
			t.Errorf("%s: error %q, expected %q", tt.reason, text, tt.err)
		}
	}
}
