package library

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/files"
	"github.com/usher-dev/usher/cmd/usher/internal/packs"
	"github.com/usher-dev/usher/internal/artifact"
)

func newPush(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "push FOLDER REFERENCE",
		Short: "Push a pack of your own to an OCI registry",
		Long: `Push sends the pack in a folder to a registry, as an OCI artifact, under a tag, and prints
the reference with its digest: the one to install it by. The same files have the same
digest. Credentials are those of Docker's configuration. A registry at a loopback address
is called without TLS.

It is signed by others: 'cosign sign' with the printed reference, without oci://. Those who
pull or install it verify that with --signed-by.`,
		Example: "  usher library push packs/acme oci://registry.acme.example/policies/acme:1.2.0",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := artifact.Parse(args[1])
			if err != nil {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
			}
			pack, all, err := packs.Files(args[0])
			if err != nil {
				return err
			}
			digest, err := artifact.Push(cmd.Context(), ref, all, map[string]string{
				"org.opencontainers.image.version": pack.Version, "org.opencontainers.image.description": pack.Title,
			})
			if err == nil {
				_, err = fmt.Fprintln(s.Out, ref.At(digest))
			}
			return err
		},
	}
}

func newPull(s cli.Streams) *cobra.Command {
	var out, signedBy string
	cmd := &cobra.Command{
		Use:   "pull REFERENCE",
		Short: "Write a pack of an OCI registry to a folder",
		Long: `Pull writes the pack that a registry has to a folder, in which none of its files may exist,
and prints the reference with its digest. Nothing is written unless all of it has the digest
of the reference, or the one that the registry has for the tag, and is a pack without errors;
with --signed-by, unless somebody whom that file names has signed the digest with cosign.
Credentials are those of Docker's configuration. A registry at a loopback address is called
without TLS.`,
		Example: `  usher library pull oci://registry.acme.example/policies/acme:1.2.0 --out packs/acme
  usher library pull oci://registry.acme.example/policies/acme:1.2.0 --out packs/acme --signed-by cosign.pub`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := artifact.Parse(args[0])
			if err == nil && out == "" {
				err = errors.New("--out is required: the folder to write the files to")
			}
			if err != nil {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: err}
			}
			_, all, at, err := packs.Pull(cmd.Context(), ref, signedBy)
			if err != nil {
				return err
			}
			var written []files.File
			for _, name := range slices.Sorted(maps.Keys(all)) {
				written = append(written, files.File{Path: name, Content: all[name]})
			}
			if _, err = files.Write(out, written, files.Keep); err == nil {
				_, err = fmt.Fprintln(s.Out, at)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder to write the files to")
	cmd.Flags().StringVar(&signedBy, "signed-by", "", packs.SignedBy)
	return cmd
}
