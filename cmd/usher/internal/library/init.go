package library

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/files"
	"github.com/usher-dev/usher/cmd/usher/internal/packs"
	"github.com/usher-dev/usher/internal/manifest"
	"github.com/usher-dev/usher/library"
)

// start has the files of a new repository beside policies and their cases.
//
//go:embed init/README.md init/workflow.yaml init/pre-commit.yaml
var start embed.FS

// Init returns usher init.
func Init(s cli.Streams) *cobra.Command {
	var flags packs.Flags
	var chosen []string
	n := names{addons: []string{"kube-system"}}
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a repository of policies to start from",
		Long: `Init writes policies of packs with their test cases, a workflow that checks and tests them,
hooks for pre-commit that do so before each commit, and a README, into a folder, which is the
current one by default. Of these, files that exist stay as they are, and those that differ are named; if one of the policies or
of their cases exists, nothing is written. The README says where the names of the folders are,
for who renames one. With --pack none it writes only the workflow, the
hooks and the README, beside policies that you have.

--infrastructure-namespaces names the namespaces of the pod network, storage drivers, DNS and
other add-ons of the cluster, without whose pods it cannot recover. The bindings of the policies
leave them out, and the workflow and the hooks have 'usher check' try the policies there.
Without the flag, they are those that the hooks or the workflow of the folder name.

The cases have the params and actions of the pack, so that they pass with any --params and
--action, and go on passing when you change those of the policies.`,
		Example: `  usher init policies
  usher init --pack supply-chain --pack networking --params 'registries=[registry.acme.example]' policies
  usher init --pack supply-chain --action Deny --infrastructure-namespaces kube-system,cilium,longhorn-system
  usher init --pack none`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if err := packs.CheckInfrastructure(n.addons); err != nil {
				return err
			}
			n.packs = strings.Join(chosen, " ")
			policies, settings, err := selected(&flags, chosen)
			if err != nil {
				return err
			}
			return n.write(cmd, s, dir, policies, settings)
		},
	}
	cmd.Flags().StringArrayVar(&chosen, "pack", []string{"best-practices"}, "pack or policy to begin with, such as supply-chain, or none (repeatable)")
	if err := cmd.RegisterFlagCompletionFunc("pack", flags.Complete); err != nil {
		panic(err)
	}
	cmd.Flags().StringSliceVar(&n.addons, packs.InfrastructureFlag, n.addons, packs.Infrastructure)
	flags.Register(cmd)
	flags.RegisterSettings(cmd)
	return cmd
}

// workflowFile checks and tests the policies.
const workflowFile = ".github/workflows/policies.yaml"

// hooksFile has the hooks of pre-commit.
const hooksFile = ".pre-commit-config.yaml"

// noPack in place of a pack means no policies.
const noPack = "none"

// selected returns the policies to begin with.
func selected(flags *packs.Flags, chosen []string) ([]library.Policy, []library.Settings, error) {
	switch {
	case slices.Contains(chosen, ""):
		return nil, nil, errors.New("--pack is empty: name a pack or policy, as 'usher library list' does, or none")
	case !slices.Contains(chosen, noPack):
		return flags.Select(chosen)
	case len(chosen) > 1:
		return nil, nil, errors.New("--pack none excludes others")
	case flags.HasSettings():
		return nil, nil, errors.New("--params and --action are for policies, and --pack none has none")
	}
	return nil, nil, nil
}

// summary says what was written, and what to do next.
func (n names) summary(dir string, policies int, made []files.File, kept []string) string {
	var written []string
	next := fmt.Sprintf("usher check --strict --%s=%s policies/", packs.InfrastructureFlag, strings.Join(n.addons, ","))
	if policies > 0 {
		written = append(written, cli.Count(policies, "policy", "policies")+" with test cases")
		next = "usher test --coverage cases/"
	}
	for _, f := range made {
		if f.Optional && !slices.Contains(kept, f.Path) {
			written = append(written, f.Path)
		}
	}
	if dir != "." {
		next = "cd " + dir + " && " + next
	}
	if _, err := os.Stat(filepath.Join(dir, "policies")); errors.Is(err, fs.ErrNotExist) {
		next = fmt.Sprintf("put policies into %s, and then: %s", filepath.Join(dir, "policies"), next)
	}
	if len(written) == 0 {
		return "nothing to write; next: " + next
	}
	return fmt.Sprintf("wrote %s to %s; next: %s", strings.Join(written, ", "), dir, next+unpinned(cli.BuildVersion().Version, func(path string) bool {
		return slices.ContainsFunc(made, func(f files.File) bool { return f.Path == path }) && !slices.Contains(kept, path)
	}))
}

// unpinned says which of the files that were written follow others than this version of Usher.
func unpinned(version string, wrote func(path string) bool) string {
	if installable(version) != "" {
		return ""
	}
	notes := ""
	if wrote(workflowFile) {
		notes += "\nthe workflow installs the latest release, which changes: name one in its version, such as v1.2.3"
	}
	if wrote(hooksFile) {
		notes += "\nthe hooks are those of the branch main, which changes: name a release in their rev, such as v1.2.3"
	}
	if notes != "" && (version == "(devel)" || version == "unknown" || strings.HasPrefix(version, "v0.0.0-")) {
		notes += "\nno release is published yet: until then the workflow fails, and 'go build ./cmd/usher' in a checkout makes the usher of the hooks; the workflow has, in comments, steps that build it"
	}
	return notes
}

// Names are what the files of a repository name: packs, and the namespaces of add-ons of the cluster.
type names struct {
	packs  string
	addons []string
}

// read returns a file of a repository.
func (n names) read(file string) ([]byte, error) {
	text, err := start.ReadFile("init/" + file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	text = bytes.ReplaceAll(text, []byte("PACKS"), []byte(n.packs))
	return bytes.ReplaceAll(text, []byte("ADDONS"), []byte(strings.Join(n.addons, ","))), nil
}

// write writes a repository into a folder, and says what to do next.
func (n names) write(cmd *cobra.Command, s cli.Streams, dir string, policies []library.Policy, settings []library.Settings) error {
	known := cmd.Flags().Changed(packs.InfrastructureFlag)
	if named := infrastructure(existing(dir, hooksFile), existing(dir, workflowFile)); !known && len(named) > 0 {
		n.addons, known = named, true
	}
	made, err := n.repository(dir, policies, settings)
	if err != nil {
		return err
	}
	kept, err := files.Write(dir, made, files.Keep)
	if _, ok := errors.AsType[*files.ExistsError](err); ok {
		err = fmt.Errorf("%w: choose another folder; 'usher library install --out' updates policies, and --pack none is about the other files", err)
	}
	if err != nil {
		return err
	}
	for _, f := range made {
		if slices.Contains(kept, f.Path) {
			cli.Notef(cmd, s, "note", "%s %s", filepath.Join(dir, f.Path), compared(dir, f))
		}
	}
	text := n.summary(dir, len(policies), made, kept)
	if off := hooksOff(existing(dir, hooksFile)); len(off) > 0 {
		text += "\noff in " + hooksFile + ", as comments: " + strings.Join(off, ", ") + "; each fails without its files: remove the '# ' before it once there are some"
	}
	if !known {
		text += "\nthe workflow and the hooks check that policies do not keep add-ons in kube-system from running: name all namespaces of yours with --" + packs.InfrastructureFlag
	}
	_, err = fmt.Fprintln(s.Out, text)
	return err
}

// existing returns a file below a folder; nil if there is none, or a link leads out of the folder.
func existing(dir, path string) []byte {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	text, err := root.ReadFile(path)
	if err != nil {
		return nil
	}
	return text
}

// compared says how a file that exists compares with the one that would be written.
func compared(dir string, f files.File) string {
	if bytes.Equal(existing(dir, f.Path), f.Content) {
		return "exists, and is what would be written"
	}
	return "exists, and stays as it is: it differs from what would be written"
}

var (
	namedAddons = regexp.MustCompile(`--` + packs.InfrastructureFlag + `=([a-z0-9,-]+)`)
	hookOff     = regexp.MustCompile(`(?m)^\s*# - id: (\S+)`)
)

// infrastructure returns the namespaces of add-ons that the first of files to name some has.
func infrastructure(files ...[]byte) []string {
	for _, text := range files {
		if match := namedAddons.FindSubmatch(text); match != nil {
			if names := strings.Split(string(match[1]), ","); packs.CheckInfrastructure(names) == nil {
				return names
			}
		}
	}
	return nil
}

// hooksOff names the hooks that are comments.
func hooksOff(hooks []byte) []string {
	var off []string
	for _, match := range hookOff.FindAllSubmatch(hooks, -1) {
		off = append(off, string(match[1]))
	}
	return off
}

// repository returns the files of a repository with policies in a folder.
func (n names) repository(dir string, policies []library.Policy, settings []library.Settings) ([]files.File, error) {
	readme, err := n.read("README.md")
	if err != nil {
		return nil, err
	}
	if len(policies) == 0 {
		readme, _, _ = bytes.Cut(readme, []byte("\nThe policies are from the library"))
	}
	workflow, err := n.read("workflow.yaml")
	if err != nil {
		return nil, err
	}
	hooks, err := n.read("pre-commit.yaml")
	if err != nil {
		return nil, err
	}
	version := installable(cli.BuildVersion().Version)
	hooks = bytes.ReplaceAll(hooks, []byte("rev: VERSION"), []byte("rev: "+cmp.Or(version, "main")))
	if len(policies) == 0 && !exist(filepath.Join(dir, "cases")) {
		// There are no cases, without which the hook fails.
		hooks = bytes.ReplaceAll(hooks, []byte("  - id: usher-test"), []byte("  # - id: usher-test"))
	}
	if exist(filepath.Join(dir, "manifests")) {
		hooks = bytes.ReplaceAll(hooks, []byte("  # - id: usher-audit"), []byte("  - id: usher-audit"))
	}
	if exist(filepath.Join(dir, "namespaces.yaml")) {
		workflow = bytes.ReplaceAll(workflow, []byte("# facts: namespaces.yaml"), []byte("facts: namespaces.yaml"))
	}
	workflow = bytes.ReplaceAll(workflow, []byte("usher@VERSION"), []byte("usher@"+cmp.Or(version, "main")))
	all := []files.File{
		{Path: "README.md", Optional: true, Content: readme},
		{Path: workflowFile, Optional: true, Content: bytes.ReplaceAll(workflow, []byte("version: VERSION"), []byte("version: '"+version+"'"))},
		{Path: hooksFile, Optional: true, Content: hooks},
	}
	for i := range policies {
		p := &policies[i]
		// Those of the library leave out kube-system.
		settings[i].Excluded = slices.DeleteFunc(slices.Clone(n.addons), func(name string) bool { return name == "kube-system" })
		manifest, err := p.Manifest(settings[i])
		if err != nil {
			return nil, err
		}
		cases, err := settled(p)
		if err != nil {
			return nil, err
		}
		cases = bytes.ReplaceAll(cases, []byte("../"+p.File+".yaml"), []byte("../policies/"+p.Name+".yaml"))
		all = append(all, files.File{Path: "policies/" + p.Name + ".yaml", Content: manifest}, files.File{Path: "cases/" + p.Name + ".yaml", Content: cases})
	}
	return all, nil
}

// exist reports whether there are manifests in a folder.
func exist(folder string) bool {
	files, err := manifest.Files(folder)
	return err == nil && len(files) > 0
}

// installable is the version that a workflow installs: that of this binary, if it is a release, so that
// a later one does not change what the tests say; empty for the latest one.
func installable(version string) string {
	v, err := utilversion.ParseSemantic(version)
	if err != nil || v.PreRelease() != "" || v.BuildMetadata() != "" {
		return ""
	}
	return version
}
