package template_test

import (
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

// A generator makes templates and objects of bytes; when they are used up, of zeros.
type generator struct{ input []byte }

func (g *generator) pick(n int) int {
	if len(g.input) == 0 {
		return 0
	}
	b := g.input[0]
	g.input = g.input[1:]
	return int(b) % n
}

func one[T any](g *generator, of ...T) T { return of[g.pick(len(of))] }

var words = []string{
	"a", "b", "spot", "gpu", "team", "corp.example/team", "corp.example~1team", "x-y.io/z", "0", "if", "é", "", "~",
	`q"uote`, `back\slash`, "two\nlines", `\(object.metadata.name)`, `pre-\(object.metadata.labels["a"])-post`, `\(oldObject.metadata.name)`,
	`\(object.spec.replicas)`, `\u00e9\t`, `#"`, `"""`, `v"},{op:"add",path:"/x",value:"w`, "/metadata/labels/a/", "requests.cpu",
}

var paths = []string{
	"/metadata/name", "/metadata/labels/a", "/metadata/labels/team.io", `/metadata/labels/"team.io"`, "/metadata/labels/x-y.io~1z",
	"metadata.annotations.a", `metadata.labels["team.io"]`, "/spec/containers/0/name", "/spec/template/spec/containers/1", "/spec", "/data/zone",
	"body.team", `header["X-Team"][0]`, "/metadata/ownerReferences/0/name", "/spec/replicas", "/spec/template/spec/containers/0/resources/limits/cpu",
}

func (g *generator) word() string { return one(g, words...) }

func (g *generator) template() *v1alpha1.OverrideRuleTemplate {
	t := &v1alpha1.OverrideRuleTemplate{
		Type: one(g, v1alpha1.TemplateResourcesOversell, v1alpha1.TemplateTolerations, v1alpha1.TemplateAffinity,
			v1alpha1.TemplateAnnotations, v1alpha1.TemplateLabels, v1alpha1.TemplateResources),
		Operation: one(g, v1alpha1.OperatorAdd, v1alpha1.OperatorReplace, v1alpha1.OperatorRemove),
	}
	switch t.Type {
	case v1alpha1.TemplateAnnotations, v1alpha1.TemplateLabels:
		t.Path = g.word()
		if g.pick(3) > 0 {
			t.Value = g.constant()
		}
		if g.pick(3) > 0 {
			t.ValueRef = g.reference()
		}
	case v1alpha1.TemplateResources:
		t.Resources = &corev1.ResourceRequirements{Requests: g.quantities(), Limits: g.quantities()}
	case v1alpha1.TemplateResourcesOversell:
		factors := []v1alpha1.Float64{"0.5", "", "0", "2", "0.333", "1e-1", ".000001", "+0.999999999", "1", "lots", "-1", "12.5", "0.25"}
		t.ResourcesOversell = &v1alpha1.ResourcesOversellRule{
			CpuFactor: one(g, factors...), MemoryFactor: one(g, factors...), DiskFactor: one(g, factors...),
		}
	case v1alpha1.TemplateTolerations:
		for range 1 + g.pick(3) {
			t.Tolerations = append(t.Tolerations, &corev1.Toleration{
				Key: g.word(), Value: one(g, "", g.word()), Effect: one(g, "", corev1.TaintEffectNoSchedule),
				Operator: one(g, "", corev1.TolerationOpExists, corev1.TolerationOpEqual),
			})
		}
	case v1alpha1.TemplateAffinity:
		t.Affinity = g.affinity()
	}
	return t
}

func (g *generator) constant() *v1alpha1.ConstantValue {
	text, number, boolean := g.word(), int64(g.pick(100))-50, g.pick(2) == 1
	return one(g,
		&v1alpha1.ConstantValue{String: &text},
		&v1alpha1.ConstantValue{StringMap: map[string]string{g.word(): g.word(), g.word(): g.word()}},
		&v1alpha1.ConstantValue{Integer: &number},
		&v1alpha1.ConstantValue{Boolean: &boolean},
		&v1alpha1.ConstantValue{StringSlice: []string{g.word(), g.word()}},
		&v1alpha1.ConstantValue{FloatSlice: []v1alpha1.Float64{"1.50", "x"}},
		&v1alpha1.ConstantValue{},
	)
}

func (g *generator) reference() *v1alpha1.ResourceRefer {
	return &v1alpha1.ResourceRefer{
		From: one(g, v1alpha1.FromCurrentObject, v1alpha1.FromOldObject, v1alpha1.FromK8s, v1alpha1.FromHTTP, v1alpha1.FromOwner),
		Path: one(g, paths...),
		K8s:  &v1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: one(g, "site", "{{metadata.name}}", "{{metadata.nick}}")},
		Http: &v1alpha1.HttpDataRef{URL: "http://stub.invalid/{{metadata.name}}"},
	}
}

func (g *generator) quantities() corev1.ResourceList {
	list := corev1.ResourceList{}
	for range g.pick(3) {
		name := one(g, corev1.ResourceCPU, corev1.ResourceMemory, "nvidia.com/gpu")
		list[name] = resource.MustParse(one(g, "1", "500m", "0", "4Gi", "100n", "1.5"))
	}
	return list
}

func (g *generator) affinity() *corev1.Affinity {
	a := &corev1.Affinity{}
	term := func() corev1.PodAffinityTerm { return corev1.PodAffinityTerm{TopologyKey: g.word()} }
	if g.pick(2) == 0 {
		a.NodeAffinity = &corev1.NodeAffinity{}
		if g.pick(2) == 0 {
			a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, g.pick(3))}
		}
		a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = make([]corev1.PreferredSchedulingTerm, g.pick(3))
	}
	if g.pick(2) == 0 {
		a.PodAffinity = &corev1.PodAffinity{}
		for range g.pick(3) {
			a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, term())
		}
	}
	if g.pick(2) == 0 {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
		for range g.pick(3) {
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.WeightedPodAffinityTerm{Weight: int32(g.pick(100)), PodAffinityTerm: term()})
		}
	}
	return a
}

// odd returns v, or from time to time something of another form, or nothing.
func (g *generator) odd(v any) (any, bool) {
	switch g.pick(12) {
	case 1:
		return nil, true
	case 2:
		return nil, false
	case 3:
		return one[any](g, "text", int64(3), 1.5, true, []any{}, map[string]any{}, []any{nil}), true
	}
	return v, true
}

// fields returns a map of what odd makes of the values.
func (g *generator) fields(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		if v, ok := g.odd(pairs[i+1]); ok {
			m[pairs[i].(string)] = v
		}
	}
	return m
}

func (g *generator) list(item func() any) []any {
	items := []any{}
	for range g.pick(4) {
		if v, ok := g.odd(item()); ok {
			items = append(items, v)
		}
	}
	return items
}

func (g *generator) labels() map[string]any {
	m := g.fields("a", g.word(), "team.io", "blue")
	for range g.pick(3) {
		m[g.word()] = g.word()
	}
	return m
}

func (g *generator) object() map[string]any {
	metadata := g.fields("labels", g.labels(), "annotations", g.labels(), "ownerReferences", []any{g.fields("name", "owner", "kind", "ReplicaSet", "apiVersion", "apps/v1")})
	metadata["name"] = one(g, "cart", "a/b", "x")
	object := map[string]any{"apiVersion": "v1", "kind": one(g, "Pod", "Deployment", "CronJob", "ConfigMap"), "metadata": metadata}
	template := g.fields("spec", g.podSpec())
	var spec any
	switch object["kind"] {
	case "Pod":
		spec = g.podSpec()
	case "Deployment":
		spec = g.fields("replicas", int64(2), "template", template)
	case "CronJob":
		spec = g.fields("jobTemplate", g.fields("spec", g.fields("template", template)))
	default:
		object["template"] = template
		return object
	}
	if spec, ok := g.odd(spec); ok {
		object["spec"] = spec
	}
	return object
}

func (g *generator) podSpec() map[string]any {
	container := func() any { return g.fields("name", "main", "resources", g.resources()) }
	return g.fields("containers", g.list(container), "affinity", g.objectAffinity(), "tolerations", g.list(func() any {
		return g.fields("key", g.word(), "value", g.word(), "operator", one(g, "Exists", "Equal", ""))
	}))
}

func (g *generator) objectAffinity() any {
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	terms := func() any { return g.list(func() any { return map[string]any{"weight": int64(g.pick(9))} }) }
	return g.fields(
		"nodeAffinity", g.fields(required, g.fields("nodeSelectorTerms", terms()), preferred, terms()),
		"podAffinity", g.fields(required, terms()),
		"podAntiAffinity", g.fields(preferred, terms()),
	)
}

func (g *generator) resources() any {
	list := func() any {
		return g.fields("cpu", g.quantity(), "memory", g.quantity(), "ephemeral-storage", g.quantity())
	}
	return g.fields("limits", list(), "requests", list())
}

func (g *generator) quantity() any {
	switch g.pick(4) {
	case 0:
		return int64(g.pick(256)) * int64(g.pick(256)+1)
	case 1:
		return one[any](g, "0", "0m", "1.5", 2.5, 1e21, "many", "-1", "9223372036854775807", "8Ei", ".", "e5", "99999999999999999999", "1e99", "+1")
	}
	digits := ""
	for range 1 + g.pick(6) {
		digits += strconv.Itoa(g.pick(10))
	}
	if g.pick(2) == 0 {
		digits += "." + strconv.Itoa(g.pick(1000))
	}
	return digits + one(g, "", "m", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "n", "u", "k", "K", "M", "G", "T", "P", "E", "e3", "E-2", "x")
}

// resolve makes known what params ask for.
func (g *generator) resolve(params func(*rule.Input) (map[string]any, error), in *rule.Input) {
	for range 3 {
		_, err := params(in)
		var missing *fact.Missing
		if !errors.As(err, &missing) {
			return
		}
		object := map[string]any{"metadata": map[string]any{"name": "site"}, "data": g.fields("zone", "eu"), "spec": g.podSpec()}
		answer := map[string]any{"body": g.fields("team", "red"), "header": g.fields("X-Team", []any{"hdr"})}
		switch {
		case g.pick(5) == 0:
			in.Facts.Set(missing.Ref, nil, errors.New("not there"))
		case missing.Ref.Sort() == fact.Requests:
			in.Facts.Set(missing.Ref, answer, nil)
		default:
			in.Facts.Set(missing.Ref, one[any](g, object, nil), nil)
		}
	}
}
