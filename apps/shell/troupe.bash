# Completion of troupe's command line in bash. What there is to choose from is read from the program's own help, so the two
# cannot disagree.

# Prints the words that begin entries of the help on stdin: subcommands, and options with their dashes.
_troupe_entries() { sed -nE 's/^  (-[a-zA-Z],)?(--[a-z-]+).*/\2/p; s/^  ([a-z-]+)  +.*/\1/p'; }

# _troupe_values OPTION: prints the values of an option of the help on stdin: `cpu` and so on of `auto|cpu|cuda`, else the
# name of the value, such as FILE.
_troupe_values() { sed -nE "s/^  (-[a-zA-Z],)?$1 ([^ ]+).*/\2/p" | tr '|' '\n'; }

# Prints the words of the first argument of the help on stdin, as in `ACTION  list: which checkpoints there are`.
_troupe_arguments() { sed -nE '/^Positionals:/,/^$/ s/^  ([A-Z]+)? +([a-z-]+): .*/\2/p'; }

_troupe() {
  local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} help values
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    mapfile -t COMPREPLY < <(compgen -W "$("$program" --help 2>/dev/null | _troupe_entries)" -- "$current")
    return
  fi
  help=$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null) || return
  if [[ $before == = ]]; then  # bash takes --option=value for three words
    before=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $current == = ]]; then
    current=
  fi
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_troupe_entries <<<"$help" | grep '^--')" -- "$current")
  elif [[ $before == -* ]] && values=$(_troupe_values "$before" <<<"$help") && [[ -n $values ]]; then
    case $values in
      FILE | DIR) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
      *[A-Z]*) ;;
      *) mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current") ;;
    esac
  else
    mapfile -t COMPREPLY < <(
      compgen -W "$(_troupe_arguments <<<"$help")" -- "$current"
      compgen -f -- "$current"
    )
  fi
}
complete -o filenames -F _troupe troupe
