package library

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/packs"
	"github.com/usher-dev/usher/library"
)

// start has the files of a new repository beside policies and their cases.
//
//go:embed init/README.md init/workflow.yaml
var start embed.FS

// Init returns usher init.
func Init(s cli.Streams) *cobra.Command {
	var flags packs.Flags
	var chosen []string
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a repository of policies to start from",
		Long: `Init writes policies of packs with their test cases, a workflow that checks and tests them,
and a README, into a folder, which is the current one by default. Files that exist are not
overwritten.`,
		Example: `  usher init policies
  usher init --pack supply-chain --pack networking --params 'registries=[registry.acme.example]' policies`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			policies, settings, err := flags.Select(chosen)
			if err != nil {
				return err
			}
			files, err := repository(policies, settings, strings.Join(chosen, " "))
			if err != nil {
				return err
			}
			if err := write(dir, files); err != nil {
				return err
			}
			enter := ""
			if dir != "." {
				enter = "cd " + dir + " && "
			}
			_, err = fmt.Fprintf(s.Out, "wrote %s with test cases to %s; next: %susher test --coverage --mutate cases/\n",
				cli.Count(len(policies), "policy", "policies"), dir, enter)
			return err
		},
	}
	cmd.Flags().StringArrayVar(&chosen, "pack", []string{"best-practices"}, "pack or policy to begin with, such as supply-chain (repeatable)")
	if err := cmd.RegisterFlagCompletionFunc("pack", flags.Complete); err != nil {
		panic(err)
	}
	flags.Register(cmd)
	flags.RegisterSettings(cmd)
	return cmd
}

// A file of the repository.
type file struct {
	path    string
	content []byte
}

// repository returns the files of a repository with policies.
func repository(policies []library.Policy, settings []library.Settings, names string) ([]file, error) {
	readme, err := start.ReadFile("init/README.md")
	if err != nil {
		return nil, fmt.Errorf("read README: %w", err)
	}
	workflow, err := start.ReadFile("init/workflow.yaml")
	if err != nil {
		return nil, fmt.Errorf("read workflow: %w", err)
	}
	files := []file{
		{"README.md", bytes.ReplaceAll(readme, []byte("PACKS"), []byte(names))},
		{".github/workflows/policies.yaml", bytes.ReplaceAll(workflow, []byte("USHER_VERSION: VERSION"), []byte("USHER_VERSION: "+installable(cli.BuildVersion().Version)))},
	}
	for i := range policies {
		p := &policies[i]
		manifest, err := p.Manifest(settings[i])
		if err != nil {
			return nil, err
		}
		cases := bytes.ReplaceAll(p.Cases, []byte("../"+p.File+".yaml"), []byte("../policies/"+p.Name+".yaml"))
		files = append(files, file{"policies/" + p.Name + ".yaml", manifest}, file{"cases/" + p.Name + ".yaml", cases})
	}
	return files, nil
}

// installable is the version that a workflow installs: that of this binary, if it is a release, so that
// a later one does not change what the tests say.
func installable(version string) string {
	v, err := utilversion.ParseSemantic(version)
	if err != nil || v.PreRelease() != "" || v.BuildMetadata() != "" {
		return "latest"
	}
	return version
}

// write writes files below a folder, all or none if one of them exists. Links that lead out of it are
// errors.
func write(dir string, files []file) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write repository: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("write repository: %w", err)
	}
	defer func() { _ = root.Close() }()
	var existing []string
	for _, f := range files {
		if _, err := root.Lstat(f.path); !errors.Is(err, fs.ErrNotExist) {
			existing = append(existing, f.path)
		}
	}
	if len(existing) > 0 {
		const mostNamed = 3
		named := strings.Join(existing[:min(len(existing), mostNamed)], ", ")
		if more := len(existing) - mostNamed; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		return fmt.Errorf("%s has %s: choose another folder; 'usher library install --out' updates policies", dir, named)
	}
	for _, f := range files {
		if err := root.MkdirAll(path.Dir(f.path), 0o755); err != nil {
			return fmt.Errorf("write repository: %w", err)
		}
		if err := root.WriteFile(f.path, f.content, 0o644); err != nil {
			return fmt.Errorf("write repository: %w", err)
		}
	}
	return nil
}
