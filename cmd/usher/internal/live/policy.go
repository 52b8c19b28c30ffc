package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/cmd/usher/internal/try"
	"github.com/usher-dev/usher/cmd/usher/internal/write"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/console"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/proof"
	"github.com/usher-dev/usher/internal/replicas"
	"github.com/usher-dev/usher/internal/report"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/source/dir"
)

// A Named names a policy.
type Named struct {
	Ref Ref `json:"ref"`
}

// A Whole is a policy with all that is known of it.
type Whole struct {
	Policy Policy `json:"policy"`
	// Source is the policy as it was written, as YAML, and Status what Usher says of it.
	Source     string      `json:"source"`
	Status     string      `json:"status"`
	Problems   []Problem   `json:"problems"`
	Conditions []Condition `json:"conditions"`
	Replicas   []Replica   `json:"replicas"`
	// Selects says what the policy is for, and Reads what it reads besides.
	Selects     []string    `json:"selects"`
	Reads       []Reading   `json:"reads"`
	Description string      `json:"description"`
	Links       []string    `json:"links"`
	Exemptions  []Exemption `json:"exemptions"`
	Candidates  []Candidate `json:"candidates"`
	Commands    []Command   `json:"commands"`
	Missing     []Gap       `json:"missing"`
}

// A Problem is one of the status of a policy, with its place in the source.
type Problem struct {
	Message  string `json:"message"`
	Field    string `json:"field"`
	Severity string `json:"severity"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
}

// A Condition is one of the status of a policy.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since,omitzero"`
}

// A Replica is what a replica says about a policy.
type Replica struct {
	Name    string    `json:"name"`
	Renewed time.Time `json:"renewed,omitzero"`
	// Agrees says that it enforces the same as most others.
	Agrees bool `json:"agrees"`
	// Failing says how the policy fails there, and Failures how often it has.
	Failing  string `json:"failing"`
	Failures int64  `json:"failures"`
}

// A Reading is something that a policy reads.
type Reading struct {
	As    string `json:"as"`
	What  string `json:"what"`
	Right string `json:"right"`
}

var costs = Gap{
	"cost", "what it costs in the cluster is in metrics: rate(usher_policy_duration_seconds_total[5m]) / rate(usher_policy_evaluations_total[5m]) with its labels; what it costs for one request, the playground shows", "",
}

func (l *Live) policy(ctx context.Context, in *Named) (*Whole, error) {
	if l.clients == nil {
		return nil, &console.Error{Status: http.StatusNotFound, Text: noKubeconfig.Text + ": run " + noKubeconfig.Run}
	}
	one, err := l.get(ctx, in.Ref)
	if err != nil {
		return nil, err
	}
	w := &Whole{
		Policy: policyOf(one), Problems: []Problem{}, Conditions: []Condition{}, Replicas: []Replica{}, Reads: []Reading{}, Links: []string{},
		Exemptions: []Exemption{}, Candidates: []Candidate{}, Commands: commandsOf(one), Missing: []Gap{},
	}
	w.Selects = selects(one)
	if w.Source, err = sourceOf(one); err != nil {
		return nil, err
	}
	if err := w.status(one); err != nil {
		return nil, err
	}
	about := compile.Compiled{Policy: one.policy}
	description, links := about.About()
	w.Description, w.Links = description, append(w.Links, links...)
	if err := l.reads(ctx, w); err != nil {
		return nil, err
	}
	l.related(ctx, w)
	if !one.kind.Foreign {
		l.told(ctx, one, w)
	}
	w.Missing = append(w.Missing, costs)
	return w, nil
}

// get returns a policy. What does not exist and what the user may not read are errors, with what to do.
func (l *Live) get(ctx context.Context, ref Ref) (*stored, error) {
	versions := versionsOf(ref.Kind)
	if len(versions) == 0 || ref.Name == "" {
		return nil, &console.Error{Status: http.StatusNotFound, Text: printable.Line(printable.Cut(ref.Kind, 100)) + " is no kind of policy"}
	}
	if err := checkNamespace(ref.Namespace); err != nil {
		return nil, err
	}
	var object *unstructured.Unstructured
	var err error
	for i := range versions {
		object, err = cluster.Policies(l.clients.Policies, &versions[i], ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err == nil {
			one, err := decoded(&versions[i], object)
			return &one, err
		}
		if !cluster.Unserved(err) {
			break
		}
	}
	status := http.StatusBadGateway
	switch {
	case apierrors.IsNotFound(err):
		status = http.StatusNotFound
	case apierrors.IsForbidden(err):
		status = http.StatusForbidden
		err = fmt.Errorf("%w: an administrator can grant you the verb get on %s (docs/explain.md#rights has the ClusterRole)", err, resource(&versions[0]))
	}
	return nil, &console.Error{Status: status, Text: err.Error()}
}

// versionsOf returns the versions of a kind of policy, the newest first.
func versionsOf(kind string) []api.Kind {
	for _, k := range api.Kinds() {
		if k.Kind == kind {
			return []api.Kind{k}
		}
	}
	for _, versions := range api.ForeignKinds() {
		if versions[0].Kind == kind {
			return versions
		}
	}
	return nil
}

// sourceOf returns a policy as it was written.
func sourceOf(s *stored) (string, error) {
	tree := try.AsWritten(s.object.DeepCopy())
	for _, annotation := range []string{"kubectl.kubernetes.io/last-applied-configuration", proof.Annotation} {
		unstructured.RemoveNestedField(tree, "metadata", "annotations", annotation)
	}
	if annotations, _, _ := unstructured.NestedMap(tree, "metadata", "annotations"); len(annotations) == 0 {
		unstructured.RemoveNestedField(tree, "metadata", "annotations")
	}
	text, err := printable.YAML(tree)
	if err != nil {
		return "", fmt.Errorf("encode policy: %w", err)
	}
	return string(text), nil
}

// status adds what the status of a policy says.
func (w *Whole) status(s *stored) error {
	if s.object.Object["status"] != nil {
		text, err := printable.YAML(s.object.Object["status"])
		if err != nil {
			return fmt.Errorf("encode status: %w", err)
		}
		w.Status = string(text)
	}
	status := statusOf(s)
	for i := range status.Conditions {
		c := &status.Conditions[i]
		w.Conditions = append(w.Conditions, Condition{c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime.Time})
	}
	written := dir.Parse(try.PoliciesFile, []byte(w.Source)).Policies
	for i := range status.Problems {
		p := &status.Problems[i]
		one := Problem{Message: p.What, Field: p.Field, Severity: p.Severity}
		if p.Do != "" {
			one.Message += "; " + p.Do
		}
		if len(written) == 1 {
			at := written[0].Position(p.Field)
			one.Line, one.Column = at.Line, at.Column
		}
		w.Problems = append(w.Problems, one)
	}
	return nil
}

// reads adds what a policy reads, as far as it compiles here.
func (l *Live) reads(ctx context.Context, w *Whole) error {
	set, problems, err := l.attempts.Compile(ctx, w.Source)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		w.Missing = append(w.Missing, Gap{"reads", "what it reads is not known, since it does not compile: " + printable.Line(problems[0].Text()), "usher check -"})
		return nil
	}
	all, err := write.Reads(set.Compiled())
	for i := range all {
		w.Reads = append(w.Reads, Reading{all[i].As, all[i].What(), all[i].Right()})
	}
	return err
}

// related adds exemptions from a policy, and candidates that are about it.
func (l *Live) related(ctx context.Context, w *Whole) {
	var kinds [][]api.Kind
	for _, k := range api.Kinds() {
		if k.Exempts || k.Candidate {
			kinds = append(kinds, []api.Kind{k})
		}
	}
	found, gaps := l.list(ctx, kinds, w.Policy.Ref.Namespace)
	w.Missing = append(w.Missing, gaps...)
	all := listed(found)
	for i := range all.Exemptions {
		if all.Exemptions[i].exempts(w.Policy.Ref) {
			w.Exemptions = append(w.Exemptions, all.Exemptions[i])
		}
	}
	for i := range all.Candidates {
		if all.Candidates[i].about(w.Policy.Ref) {
			w.Candidates = append(w.Candidates, all.Candidates[i])
		}
	}
}

// told adds what replicas say in their Leases.
func (l *Live) told(ctx context.Context, s *stored, w *Whole) {
	leases, err := l.clients.Kube.CoordinationV1().Leases(l.flags.Replicas.Namespace).List(ctx, metav1.ListOptions{LabelSelector: replicas.LeaseLabel + "=" + replicas.LeaseReplica})
	if err != nil {
		w.Missing = append(w.Missing, Gap{"replicas", "what each replica enforces: " + printable.Line(err.Error()) + "; the condition Enforced sums it up", "kubectl get leases -n " + l.flags.Replicas.Namespace})
		return
	}
	state := &rule.State{Policy: compile.Ref(s.policy.Object), UID: s.object.GetUID(), Generation: s.object.GetGeneration()}
	for _, t := range report.Tell(leases.Items, state) {
		one := Replica{Name: t.Replica, Renewed: t.Renewed, Agrees: t.Agrees}
		if f := t.Failure; f != nil {
			one.Failing, one.Failures = fmt.Sprintf("%s: %s (%s)", cmp.Or(f.Part, f.Rule), f.Error, f.Example), f.Count
		}
		w.Replicas = append(w.Replicas, one)
	}
}

// commandsOf returns lines for a policy. The console runs none of them.
func commandsOf(s *stored) []Command {
	kind, ref := strings.ToLower(s.kind.Kind), s.ref()
	in := served.In(ref.Namespace)
	at := served.Quote(ref.Name) + in
	all := []Command{
		{"edit it", "kubectl edit " + kind + " " + at},
		{"keep it in a file", "kubectl get " + kind + " " + at + " -o yaml > policy.yaml"},
	}
	if s.kind.Exempts || s.kind.Candidate {
		return all
	}
	if !s.kind.Foreign {
		all = append(all, suspending(s, kind, at))
	}
	all = append(all, Command{"see its decisions", "usher watch --policy " + served.Policy(usher.PolicyRef(ref)) + in + " --since 1h"})
	if s.kind.Authorizes {
		return all
	}
	return append(all,
		Command{"see what exists and violates it", "usher audit --policy " + served.Quote(slashed(ref)) + in},
		Command{"explain it for an object", "usher explain --from-cluster KIND/NAME -n NAMESPACE --policy " + served.Quote(ref.Name) + " --cost"},
		Command{"compare a change of it", "usher impact --from-cluster policy.yaml"},
	)
}

func slashed(ref Ref) string {
	if ref.Namespace == "" {
		return ref.Name
	}
	return ref.Namespace + "/" + ref.Name
}

// suspending returns the line that suspends a policy, or resumes it.
func suspending(s *stored, kind, at string) Command {
	suspended := api.Suspended(s.policy.Object)
	title := "suspend it"
	if suspended {
		title = "resume it"
	}
	if api.SuspendField(s.policy.Object) != "spec.suspend" {
		word := "=true --overwrite"
		if suspended {
			word = "-"
		}
		return Command{title, "kubectl annotate " + kind + " " + at + " " + api.AnnotationSuspend + word}
	}
	patch, _ := json.Marshal(map[string]any{"spec": map[string]any{"suspend": !suspended}})
	return Command{title, "kubectl patch " + kind + " " + at + " --type merge -p '" + string(patch) + "'"}
}
