package cli

import "github.com/spf13/pflag"

// DeprecatedFlag makes old another name of the flag called name, which must exist. Help does not
// list old; using it prints a warning that names the other.
func DeprecatedFlag(flags *pflag.FlagSet, name, old string) {
	alias := *flags.Lookup(name)
	alias.Name, alias.Shorthand = old, ""
	alias.Deprecated, alias.Hidden = "use --"+name, true
	flags.AddFlag(&alias)
}
