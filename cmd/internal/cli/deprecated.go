package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// renamed is the annotation of a deprecated flag that names the one to use.
const renamed = "usher.dev/renamed-to"

// DeprecatedFlag makes old another name of the flag called name, which must exist. Help does not
// list old; using it prints a warning that names the other.
func DeprecatedFlag(flags *pflag.FlagSet, name, old string) {
	alias := *flags.Lookup(name)
	alias.Name, alias.Shorthand, alias.Hidden = old, "", true
	alias.Annotations = map[string][]string{renamed: {name}}
	flags.AddFlag(&alias)
}

// RenamedTo returns the name of the flag of which flag is a deprecated name, else "".
func RenamedTo(flag *pflag.Flag) string {
	if names := flag.Annotations[renamed]; len(names) == 1 {
		return names[0]
	}
	return ""
}

// warnDeprecated warns of the deprecated flags on the command line. It does not leave that to
// pflag, whose warnings go where the output goes.
func warnDeprecated(cmd *cobra.Command, s Streams) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if name := RenamedTo(flag); name != "" {
			Notef(cmd, s, "warning", "--%s is deprecated: use --%s", flag.Name, name)
			cmd.Flags().Lookup(name).Changed = true
		}
	})
}
