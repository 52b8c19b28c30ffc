//go:build !race

// What reads the whole source is the same with the race detector, and takes minutes.

package usher_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/usher-dev/usher"

// mayImport is the architecture (docs/architecture.md): which folders of this module a folder may
// import. "x/..." is x and everything below it. Folders that are not listed, and imports that are
// not allowed, fail the test.
var mayImport = []struct {
	folder  string
	imports []string
}{
	// Artifacts: what one step hands to the next.
	{".", []string{"internal/jsontree"}},
	{"api/...", []string{"api/..."}},
	// What users may do is asked in the form of a request to authorize.
	{"fact", []string{"."}},
	{"internal/rule", []string{".", "fact", "internal/podtemplate", "internal/rule/allowance"}},
	{"internal/rule/allowance", nil},
	{"internal/rule/authz", []string{".", "api", "internal/rule", "internal/rule/allowance"}},
	{"internal/rule/ruletest", []string{".", "internal/rule"}},
	{"internal/kind", []string{"internal/printable"}},
	{"deploy/crds", nil},
	// Packs of policies, as they are written; a name that does not exist is compared with those that do.
	{"library", []string{"api/...", "internal/rule", "internal/manifest"}},

	// Stages: one step each. A stage imports artifacts, never another stage.
	{"fact/...", []string{"fact", "internal/rule"}},
	{"fact/object", []string{"fact", "internal/rule", "internal/manifest"}},
	{"fact/cluster", []string{".", "fact", "internal/reflector"}},
	// Misspelled kinds get suggestions, which rule has.
	{"source/...", []string{"api", "internal/rule", "source", "internal/changes", "internal/manifest"}},
	{"source/cluster", []string{"api", "source", "internal/changes", "internal/reflector"}},
	// Slow programs are suspended for those who make them slow.
	{"internal/lang/cue", []string{".", "api/...", "fact", "internal/rule/...", "internal/lang/...", "internal/breaker", "internal/jsontree", "internal/printable"}},
	{"internal/lang/...", []string{".", "api/...", "fact", "internal/rule/...", "internal/lang/...", "internal/printable"}},
	// What its dialects share knows expressions, and no policies.
	{"internal/lang/cel", []string{".", "internal/jsontree", "internal/lang/cel/closure", "internal/lang/cel/meter", "internal/lang/quantity", "internal/rule/allowance"}},
	{"internal/lang/cel/meter", []string{"internal/rule/allowance"}},
	// What can be parsed, for objects in any language.
	{"internal/lang/quantity", nil},
	{"internal/lang/cel/closure", []string{"internal/lang/cel/meter"}},
	{"internal/lang/cel/celtest", nil},
	// It writes expressions, and knows nothing of what evaluates them.
	{"internal/lang/cel/hostile", nil},
	// Types of expressions are checked against the schemas of kinds.
	{"internal/lang/cel/typecheck", []string{"internal/rule", "internal/lang/cel", "internal/lang/cel/admission", "internal/lang/cel/apply", "internal/lang/cel/meter", "internal/kind", "internal/printable"}},
	// Each mutation sees the result of those before.
	{"internal/lang/cel/admission", []string{".", "fact", "internal/access", "internal/rule", "internal/rule/allowance", "internal/lang/cel/...", "internal/jsonpatch"}},
	// Policies in files are checked against the CRDs.
	{"internal/compile/definition", []string{"api/...", "deploy/crds"}},
	{"internal/compile/definition/definitiontest", nil},
	{"internal/compile/...", []string{".", "api/...", "fact", "internal/rule/...", "internal/lang/...", "internal/compile/...", "internal/printable"}},
	// Commands give up policies that do not end.
	{"internal/compile/bounded", []string{"api", "internal/compile", "internal/rule", "internal/stall", "source"}},
	// It proves policies as other policies have left them.
	{"internal/compile/guard", []string{".", "api/...", "fact", "internal/rule/...", "internal/lang/...", "internal/compile/...", "internal/jsonpatch", "internal/printable", "internal/proof"}},
	{"internal/index", []string{".", "internal/rule", "internal/podtemplate"}},
	// Exemptions are for containers of pods, and of the templates of workloads.
	{"internal/engine", []string{".", "fact", "internal/rule", "internal/breaker", "internal/deadline", "internal/jsonpatch", "internal/overrun", "internal/podtemplate", "internal/stall"}},
	// The same stages for requests to authorize.
	{"internal/index/authz", []string{".", "internal/rule/authz"}},
	{"internal/engine/authz", []string{".", "internal/breaker", "internal/overrun", "internal/printable", "internal/rule", "internal/rule/authz"}},
	{"door/...", []string{".", "internal/answer", "internal/deadline", "internal/envelope", "internal/jsonscan", "internal/jsontree", "internal/limit", "internal/ratelog", "internal/printable"}},
	// It decides both phases of a request: the second gets the object as the first has changed it.
	{"door/admission", []string{".", "internal/answer", "internal/deadline", "internal/envelope", "internal/jsonpatch", "internal/jsonscan", "internal/jsontree", "internal/limit", "internal/ratelog", "internal/printable", "internal/turns"}},
	// Usher can always read its own policies, whatever they say.
	{"door/authorization", []string{".", "api", "internal/deadline", "internal/envelope", "internal/jsonscan", "internal/jsontree", "internal/limit", "internal/printable", "internal/ratelog"}},
	// The tests that every door runs, with cases of policies.
	{"internal/door/doortest", []string{".", "internal/engine", "internal/index", "internal/answer", "internal/jsonpatch", "internal/overrun", "internal/policytest", "internal/rule"}},
	// No API server applies the patch for these doors: they apply it themselves.
	{"door/apiserver", []string{".", "internal/answer", "internal/access", "internal/jsonpatch"}},
	{"door/transport", []string{".", "internal/answer", "internal/jsonpatch"}},
	{"internal/samples", []string{"."}},
	{"observe/...", []string{".", "api", "fact", "internal/withhold"}},
	{"internal/observe/recording", []string{".", "fact", "internal/delegated", "internal/printable", "internal/turns"}},
	{"internal/observe/recent", []string{".", "internal/rule", "internal/printable", "internal/turns"}},
	{"internal/observe/spans", []string{".", "fact", "internal/printable", "internal/ratelog"}},
	{"internal/observe/spans/spanstest", nil},
	{"internal/observe/trace", []string{".", "internal/explain", "internal/rule"}},
	{"internal/observe/failing", []string{".", "fact", "internal/printable", "internal/withhold", "internal/rule"}},
	{"internal/report", []string{".", "api/...", "internal/deadline", "internal/replicas", "internal/rule", "internal/printable", "internal/turns"}},
	{"internal/report/openreports", []string{".", "internal/audit/result", "internal/deadline", "internal/printable"}},
	// What is said about objects that exist.
	{"internal/audit/result", []string{"."}},
	{"internal/audit/result/resulttest", []string{"internal/audit/result"}},
	// It reads bytes, not objects.
	{"internal/audit/stream", []string{"internal/audit/result"}},
	// What an API server does around a decision, offline.
	{"internal/simulate/authz", []string{"."}},

	// Assemblies: they connect stages.
	// Stored objects as requests, and findings as results.
	{"internal/audit/judge", []string{".", "internal/audit/result", "internal/engine", "fact", "internal/index", "internal/jsonpatch", "internal/overrun", "internal/withhold", "internal/rule", "internal/printable"}},
	{"internal/audit/queue", nil},
	// What is known of objects, and what has to be judged.
	{"internal/audit/store", []string{".", "internal/audit/judge", "internal/audit/queue", "internal/audit/result", "fact", "internal/printable"}},
	// What judges objects, kept current; it is told what streams read.
	{"internal/audit", []string{".", "internal/audit/judge", "internal/audit/queue", "internal/audit/result", "internal/audit/store", "internal/jsontree", "internal/rule"}},
	// Which of the resources of an API server have objects to judge.
	{"internal/audit/resources", []string{".", "internal/audit/judge", "internal/audit/result"}},
	// Requests that nobody made, and what the decisions on them say of a policy.
	// Policies that are tried take turns with those that decide.
	{"internal/trial", []string{".", "api", "fact", "internal/rule", "internal/rule/allowance", "internal/rule/authz", "internal/compile", "internal/compile/admissionregistration", "internal/lang/cel/typecheck", "internal/index", "internal/engine", "internal/jsonpatch", "internal/overrun", "internal/kind", "internal/printable"}},
	// What is wrong with policies, for commands and for editors.
	{"internal/check", []string{".", "api", "internal/compile/...", "internal/rule", "internal/stall", "internal/trial", "source"}},
	// What authors need to know while they write. It reads texts that are no YAML yet.
	{"internal/assist", []string{"api", "deploy/crds", "internal/assist/draft", "internal/kind", "internal/lang/cel/admission", "internal/lang/cel/typecheck", "internal/manifest", "internal/printable", "internal/rule", "source/..."}},
	{"internal/assist/draft", nil},
	{"internal/assist/lsp", []string{"internal/assist", "internal/printable", "internal/rule"}},
	// Policies are compiled and tried in processes that can be killed.
	{"internal/trial/isolated", []string{"api/...", "internal/rule", "internal/compile", "internal/lang/cue", "internal/lang/worker", "internal/trial"}},
	// Which requests reach a door is what API servers are told to send.
	{"internal/trial/lockout", []string{".", "api", "fact", "internal/rule", "internal/compile", "internal/index", "internal/engine", "internal/jsonpatch", "internal/webhookconfig", "internal/printable"}},
	// What would be in force, decided after the answer.
	{"internal/candidate", []string{".", "api", "fact", "internal/rule", "internal/rule/authz", "internal/compile", "internal/deadline", "internal/index", "internal/index/authz", "internal/engine", "internal/engine/authz", "internal/audit/queue", "internal/impact/diff", "internal/jsontree", "internal/overrun", "internal/turns"}},
	// Whose right to write a policy is asked depends on where API servers let objects of a kind be written.
	{"internal/live", []string{".", "internal/trial/...", "api/...", "fact", "internal/candidate", "internal/rule/...", "source", "internal/compile/...", "internal/index/...", "internal/engine/...", "internal/overrun", "internal/turns", "internal/webhookconfig"}},
	// Other forms of a policy, which have to decide generated requests alike.
	{"internal/convert", []string{".", "api/...", "fact/...", "internal/rule", "internal/compile", "internal/index", "internal/engine", "internal/jsonpatch", "internal/kind", "internal/trial"}},
	{"internal/convert/proof", []string{"."}},
	{"internal/convert/gatekeeper", []string{".", "api/...", "internal/convert", "internal/convert/proof", "internal/kind", "internal/policytest", "internal/rule", "internal/stall", "library"}},
	// How Kyverno's expressions are written is known to those who convert and to those who interpret them.
	{"internal/convert/kyverno/jmespath", nil},
	{"internal/convert/kyverno/expression", []string{"internal/convert/kyverno/jmespath", "internal/convert/kyverno/syntax", "internal/kind"}},
	// What Kyverno's engine answers, as it was recorded.
	{"internal/convert/kyverno/corpus", []string{"internal/kind"}},
	{"internal/convert/kyverno/interpret", []string{"internal/convert/kyverno/jmespath", "internal/convert/kyverno/syntax"}},
	{"internal/convert/kyverno/prove", []string{".", "internal/convert", "internal/convert/proof", "internal/convert/kyverno/interpret", "internal/convert/kyverno/jmespath", "internal/convert/kyverno/syntax", "internal/jsonpatch", "internal/kind", "internal/policytest", "internal/rule", "internal/stall"}},
	{"internal/convert/kyverno/syntax", nil},
	{"internal/convert/kyverno", []string{".", "api/...", "internal/convert", "internal/convert/kyverno/expression", "internal/convert/kyverno/syntax", "internal/kind", "internal/policytest", "internal/rule", "internal/stall"}},
	{"internal/convert/kyverno/celkinds", []string{".", "api/...", "internal/convert", "internal/kind", "internal/policytest", "internal/rule", "internal/stall"}},
	// What happened, decided by two sets of policies.
	{"internal/impact", []string{".", "door/admission", "internal/audit/judge", "internal/audit/result", "internal/impact/diff", "internal/podtemplate", "internal/rule", "internal/rule/authz"}},
	// How two decisions differ is for whatever decides by two sets of policies.
	{"internal/impact/diff", []string{"."}},
	{"internal/impact/auditlog", []string{".", "internal/impact", "internal/simulate/authz"}},
	// The chain of k8s.io/apiserver. Usher answers in it as a webhook.
	{"simulate", []string{".", "internal/access", "internal/kind", "internal/simulate/authz", "door/admission", "door/apiserver", "internal/webhookconfig", "internal/paths", "internal/yamldiff"}},
	// Explains a decision from its rules and findings; measuring them takes an engine.
	{"internal/explain", []string{".", "fact", "internal/rule", "internal/rule/allowance", "internal/index", "internal/engine", "internal/jsonpatch", "internal/overrun", "internal/stall"}},
	// Explanations for people, of commands and of programs.
	{"internal/explain/text", []string{".", "internal/explain", "internal/printable", "internal/rule", "internal/rule/allowance"}},
	// What an engine says of requests to authorize, for both.
	{"internal/explain/authz", []string{".", "internal/engine/authz", "internal/explain/text", "internal/printable", "internal/rule", "internal/rule/authz"}},
	// It leaves conditions of CUE out, to see whether a case fails.
	{"internal/policytest", []string{".", "api/...", "internal/answer", "fact/...", "internal/rule/...", "internal/compile/...", "internal/index/...", "internal/engine/...", "internal/lang/cue", "internal/lang/cel/mutant", "internal/jsonpatch", "internal/manifest", "internal/stall", "internal/printable"}},
	// What embedders use of them.
	{"live", []string{".", "fact", "internal/compile", "internal/engine", "internal/explain/...", "internal/lang/cue", "internal/lang/worker", "internal/live", "internal/overrun", "internal/printable", "internal/rule", "internal/trial", "internal/trial/isolated", "internal/webhookconfig", "source"}},
	{"policytest", []string{"internal/policytest"}},
	{"plugin", []string{".", "internal/deadline", "internal/webhookconfig", "internal/compile", "internal/compile/guard", "door/apiserver", "internal/engine", "fact/...", "internal/lang/worker", "internal/live", "observe/decisionlog", "internal/rule", "source/...", "internal/trial/isolated", "internal/proof", "internal/keyring", "internal/overrun", "internal/reload"}},
	// What Go programs serve their own webhooks with. It knows handlers, not deciders.
	{"webhook", []string{"internal/clientauth", "internal/cert", "internal/graceful", "internal/limit"}},
	// Configuration to running server: it connects what the rest provides.
	{"internal/serve", []string{
		".", "api/usher/v1alpha1", "door/admission", "door/authorization", "fact", "fact/cached", "fact/cluster", "fact/http", "fact/object", "internal/auditapi",
		"internal/cert", "internal/clientauth", "internal/clients", "internal/compile", "internal/compile/authorization", "internal/deadline", "internal/delegated",
		"internal/engine", "internal/engine/authz", "internal/graceful", "internal/keyring", "internal/lang/cue", "internal/lang/worker", "internal/limit", "internal/live",
		"internal/memory", "internal/observe/failing", "internal/observe/recent", "internal/observe/recording", "internal/observe/spans", "internal/observe/trace", "internal/overrun", "internal/paths", "internal/printable", "internal/probe",
		"internal/proof", "internal/reload", "internal/replicas", "internal/report", "internal/rule", "internal/rule/authz", "internal/serve/auditing",
		"internal/serve/decisions", "internal/serve/kinds", "internal/serve/page", "internal/serve/proofs", "internal/serve/routes", "internal/simulate/authz",
		"internal/trial", "internal/trial/isolated", "internal/trial/lockout", "internal/webhookconfig", "observe/decisionlog", "observe/metrics", "source", "source/cluster",
		"source/dir",
	}},
	{"internal/serve/page", nil},
	{"internal/serve/routes", []string{".", "internal/deadline", "internal/keyring", "internal/paths", "internal/reload", "internal/replicas", "internal/rule", "internal/serve/page", "internal/webhookconfig"}},
	{"internal/serve/proofs", []string{"api", "internal/changes", "internal/deadline", "internal/keyring", "internal/proof", "internal/reload", "internal/replicas", "internal/serve/page"}},
	{"internal/serve/kinds", []string{"api", "internal/kind", "internal/rule/authz", "internal/serve/page", "source/cluster"}},
	{"internal/serve/auditing", []string{".", "fact", "fact/cluster", "internal/audit", "internal/audit/judge", "internal/audit/resources", "internal/audit/result", "internal/audit/stream", "internal/auditapi", "internal/compile", "internal/deadline", "internal/engine", "internal/printable", "internal/report/openreports", "internal/rule", "internal/serve/kinds", "internal/serve/page", "internal/webhookconfig", "observe/metrics"}},
	{"internal/serve/decisions", []string{"internal/delegated", "internal/observe/recent"}},
	// Commands use of the doors what any Go program can use.
	{"cmd/...", []string{
		".", "api/...", "internal/audit/...", "fact/...", "internal/rule/...", "source/...", "internal/compile/...", "internal/index/...", "internal/engine/...", "internal/live", "internal/policytest", "internal/report/...", "internal/trial/...", "internal/convert", "internal/kind", "library",
		// A process can be a worker that evaluates CUE, or compiles policies, and does nothing else; main
		// finds out.
		"internal/lang/cue/...", "internal/lang/worker",
		"simulate/...", "deploy/crds", "internal/...", "door/...", "observe/...", "cmd/internal/...", "cmd/usher/internal/...",
	}},
	{"cmd/usher-samples", []string{".", "door/...", "observe/...", "internal/samples", "webhook", "cmd/internal/cli"}},
	// What commands of all binaries print and accept.
	{"cmd/internal/cli", []string{"internal/printable"}},
	{"cmd/internal/cli/clitest", []string{"cmd/internal/cli"}},
	{"examples/...", []string{".", "door/...", "webhook"}},
	{"examples/sdk/cluster", []string{".", "door/admission", "fact/cached", "fact/cluster", "live", "observe/metrics", "source/cluster"}},
	{"examples/sdk/policies", []string{"door/admission", "live", "source/dir", "webhook"}},

	// Helpers.
	{"internal/jsonpatch", []string{"."}},
	{"internal/breaker", nil},
	{"internal/turns", nil},
	// Evaluations that do not end are told with their rules.
	{"internal/overrun", []string{".", "internal/breaker", "internal/rule", "internal/rule/allowance"}},
	// Objects use it to decode themselves.
	{"internal/jsontree", nil},
	// Commands give up what engines and programs do not.
	{"internal/stall", nil},
	// Text for people, and that of others for terminals, responses and headers.
	{"internal/printable", nil},
	{"internal/printable/printabletest", nil},
	{"internal/ratelog", nil},
	// Both webhook doors read large JSON and need little of it.
	{"internal/jsonscan", []string{"internal/jsontree"}},
	// The answers of the admission doors, in each protocol.
	{"internal/answer", []string{".", "internal/printable"}},
	{"internal/access", []string{"."}},
	{"internal/withhold", []string{".", "fact", "internal/printable"}},
	{"internal/cert", []string{"internal/changes", "internal/reload", "internal/secret"}},
	// What is served to users of the cluster; the API server says who they are and what they may do.
	{"internal/delegated", []string{"internal/limit", "internal/ratelog"}},
	// A resource of that API, and what reads it.
	{"internal/auditapi", []string{".", "internal/audit/result", "internal/delegated", "internal/rule"}},
	{"internal/delegated/delegatedtest", []string{"internal/delegated"}},
	// What follows files and clusters waits for the end of a series of changes.
	{"internal/changes", nil},
	// What reads files of objects, policies or cases finds them the same way.
	{"internal/manifest", nil},
	// Files in registries; what they are is known to its caller.
	{"internal/artifact", nil},
	{"internal/artifact/artifacttest", nil},
	{"internal/graceful", []string{"internal/limit"}},
	// A page for the user of this machine, and its API. What it answers comes from its caller. Misspelled fields get
	// suggestions, which rule has.
	{"internal/console", []string{"internal/graceful", "internal/manifest", "internal/printable", "internal/rule"}},
	// What requests may take of the server's memory, slots and connections; the doors charge for what they decode.
	{"internal/limit", []string{"internal/memory"}},
	{"internal/memory", nil},
	// Attackers for tests and the soak. They know nothing of the server.
	{"internal/attack", []string{"internal/deadline"}},
	// What the webhook doors read in common.
	{"internal/envelope", []string{"internal/limit"}},
	// It works on files and treats certificates as text.
	{"internal/cabundle", []string{"internal/manifest"}},
	{"internal/paths", []string{"internal/keyring"}},
	// Proofs are about policies as they are decoded.
	{"internal/proof", []string{"api/...", "internal/keyring"}},
	// Keys that replicas share in a Secret.
	{"internal/keyring", []string{"internal/secret"}},
	{"internal/secret", nil},
	{"internal/clientauth", []string{"internal/ratelog", "internal/reload"}},
	{"internal/reload", []string{"internal/changes"}},
	// It asks as an API server's client, and answers as a Decider.
	// Clients of an API server, for servers and commands.
	{"internal/clients", []string{"internal/probe"}},
	// Leases of replicas, and who leads.
	{"internal/replicas", []string{"internal/deadline"}},
	// What it writes are policies and exemptions, each for one of the entries.
	{"internal/probe", []string{".", "api/...", "internal/deadline"}},
	// What source/cluster and fact/cluster have in common.
	{"internal/reflector", nil},
	{"internal/yamldiff", []string{"internal/printable"}},
	{"internal/podtemplate", []string{"."}},
	// Computes what API servers send from what rules match; policies are always sent.
	{"internal/webhookconfig", []string{".", "api/...", "internal/rule"}},
	{"internal/webhookconfig/authz", []string{"internal/rule", "internal/rule/authz", "internal/webhookconfig/credential"}},
	{"internal/webhookconfig/admission", []string{"internal/rule", "internal/webhookconfig/credential"}},
	{"internal/webhookconfig/credential", nil},
	// A client of webhooks in general.
	{"internal/load", nil},
	{"internal/deadline", nil},
	// Runs the commands in documents, for tests.
	{"internal/doctest", nil},
	// Generators that make runs; they work on files alone.
	{"hack/...", nil},
}

// homes are the folders that may import a heavy dependency.
var homes = []struct {
	dependency string
	folders    []string
}{
	{"cuelang.org/go", []string{"internal/lang/cue/..."}},
	{"github.com/google/cel-go", []string{"internal/lang/cel/...", "internal/convert/kyverno/celkinds"}},
	// The interfaces of plugins change with almost every release of Kubernetes.
	{"k8s.io/apiserver/pkg/admission", []string{"door/apiserver", "plugin", "simulate"}},
	{"k8s.io/apiserver/pkg/authorization", []string{
		"door/apiserver", "internal/access", "internal/delegated", "plugin", "simulate",
		// CEL's variable authorizer asks one; here it is made of facts.
		"internal/lang/cel/admission",
		// Configurations are checked as API servers check them.
		"internal/webhookconfig/authz",
	}},
	{"k8s.io/apiserver/pkg/authentication/authenticator", []string{"internal/delegated"}},
	// What talks to an API server: policies, facts, what copies both (internal/reflector), status,
	// webhook configurations (internal/webhookconfig), and what makes clients.
	{"k8s.io/client-go", []string{
		"source/cluster", "fact/cluster", "internal/audit/stream", "internal/reflector", "internal/report/...", "internal/webhookconfig/...", "internal/delegated/...", "internal/probe", "internal/clients", "internal/replicas", "internal/secret", "internal/serve/...", "plugin", "door/transport", "simulate", "cmd/usher/...",
		// A program of others makes the clients.
		"examples/sdk/cluster",
	}},
	// Registries of OCI artifacts.
	{"oras.land/oras-go", []string{"internal/artifact"}},
	{"sigs.k8s.io/controller-runtime", nil},
	{"github.com/prometheus", []string{"observe/metrics", "examples/sdk/cluster"}},
	// The dispatchers of the API server tell tracers which webhook they call; spans records what a server does.
	{"go.opentelemetry.io", []string{"internal/observe/spans/...", "simulate"}},
	// The structures of kinds, and what merging by them means.
	{"sigs.k8s.io/structured-merge-diff", []string{"internal/lang/cel/apply"}},
	{"k8s.io/kubernetes", nil},
	{"go.etcd.io", nil},
}

func TestImportsFollowTheArchitecture(t *testing.T) {
	t.Parallel()
	for folder, imports := range sources(t).imports {
		allowed, listed := allowedImports(folder)
		if !listed {
			t.Errorf("folder %s is not part of the architecture: give it a row in mayImport", folder)
			continue
		}
		for _, imported := range imports {
			ours, isOurs := within(imported)
			if isOurs && !matches(allowed, ours) {
				t.Errorf("%s imports %s: not allowed by mayImport", folder, ours)
			}
			if isOurs && strings.HasPrefix(ours, "cmd/") && !strings.HasPrefix(folder, "cmd/") {
				t.Errorf("%s imports %s, which belongs to the commands", folder, ours)
			}
			for _, home := range homes {
				if below(imported, home.dependency) && !matches(home.folders, folder) {
					t.Errorf("%s imports %s, whose home is %v", folder, imported, home.folders)
				}
			}
			if folder == "." && !isOurs && strings.Contains(imported, ".") && !below(imported, "k8s.io/apimachinery") {
				t.Errorf("the contract imports %s: it may import apimachinery and nothing heavier", imported)
			}
		}
	}
}

func TestArchitectureNamesOnlyFoldersThatExist(t *testing.T) {
	t.Parallel()
	for _, row := range mayImport {
		if _, err := os.Stat(filepath.FromSlash(strings.TrimSuffix(row.folder, "/..."))); err != nil {
			t.Errorf("mayImport: %v", err)
		}
	}
}

func allowedImports(folder string) ([]string, bool) {
	var allowed []string
	best := -1
	for _, row := range mayImport {
		// A row for the folder itself is closer than one for all below.
		closeness := len(strings.TrimSuffix(row.folder, "/..."))
		if matches([]string{row.folder}, folder) && (closeness > best || row.folder == folder) {
			best, allowed = closeness, row.imports
		}
	}
	return allowed, best >= 0
}

// code is the Go files of all modules, without tests, and the imports of every folder of this one.
type code struct {
	set     *token.FileSet
	files   map[string]*ast.File
	imports map[string][]string
}

func sources(t *testing.T) *code {
	t.Helper()
	read, err := readSources()
	if err != nil {
		t.Fatal(err)
	}
	return read
}

var readSources = sync.OnceValues(func() (*code, error) {
	c := &code{set: token.NewFileSet(), files: map[string]*ast.File{}, imports: map[string][]string{}}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(c.set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		c.files[name] = file
		folder := path.Dir(name)
		if inOtherModule(folder) {
			return nil
		}
		c.imports[folder] = slices.Clip(c.imports[folder])
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			c.imports[folder] = append(c.imports[folder], imported)
		}
		return nil
	})
	return c, err
})

func inOtherModule(folder string) bool {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, err := os.Stat(filepath.Join(filepath.FromSlash(folder), "go.mod")); err == nil {
			return true
		}
	}
	return false
}

func within(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

func below(name, parent string) bool { return name == parent || strings.HasPrefix(name, parent+"/") }

func matches(patterns []string, folder string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if parent, ok := strings.CutSuffix(pattern, "/..."); ok {
			return below(folder, parent)
		}
		return folder == pattern
	})
}

// TestArchitectureSaysNothingInVain fails on a row for a folder that does not exist, and on a home
// without its dependency: such rows would allow imports that nobody intended.
func TestArchitectureSaysNothingInVain(t *testing.T) {
	t.Parallel()
	folders := sources(t).imports
	exists := func(pattern string) bool {
		for folder := range folders {
			if matches([]string{pattern}, folder) {
				return true
			}
		}
		return false
	}
	for _, row := range mayImport {
		for _, pattern := range row.imports {
			if !exists(pattern) {
				t.Errorf("mayImport: %s may import %s, where there is no package", row.folder, pattern)
			}
		}
	}
	for _, home := range homes {
		for _, pattern := range home.folders {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(folders)), func(folder string) bool {
				return matches([]string{pattern}, folder) &&
					slices.ContainsFunc(folders[folder], func(imported string) bool { return below(imported, home.dependency) })
			}) {
				t.Errorf("homes: nothing in %s imports %s", pattern, home.dependency)
			}
		}
	}
}

// folderCell finds the folders in the first column of a table.
var folderCell = regexp.MustCompile("`([a-z./…-]+)`")

// TestDocumentedFoldersAreThere compares the table of docs/architecture.md with the folders:
// each folder has a row, its own or that of one above it, and each row has a folder.
func TestDocumentedFoldersAreThere(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	folders := sources(t).imports
	var documented []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, match := range folderCell.FindAllStringSubmatch(cell, -1) {
			name := strings.TrimRight(match[1], "/…")
			if match[1] == "." {
				name = "."
			}
			documented = append(documented, name)
			if !slices.ContainsFunc(slices.Collect(maps.Keys(folders)), func(folder string) bool { return below(folder, name) }) {
				t.Errorf("docs/architecture.md has a row for %s, where there is no package", name)
			}
		}
	}
	for folder := range folders {
		if !slices.ContainsFunc(documented, func(name string) bool { return folder == name || name != "." && below(folder, name) }) {
			t.Errorf("docs/architecture.md has no row for %s", folder)
		}
	}
}
