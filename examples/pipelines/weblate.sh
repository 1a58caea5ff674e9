#!/usr/bin/env bash
# Put what translations lack into PO and XLIFF files, and show which checks of pofilter fail before and after. Weblate
# reads files with the same library. Tried with translate-toolkit 3.20.4, whose pofilter reads XLIFF 1.2 only.
#
#     bash examples/pipelines/weblate.sh [FILE.po FILE.xlf ...]     # writes FILE.new.po next to each
set -euo pipefail
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
checks=(xmltags variables printf pythonbraceformat newlines escapes tabs)

if [ $# = 0 ]; then
    mkdir weblate-example && cd weblate-example
    cat > a.po << 'END'
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\nLanguage: de\n"

#, c-format
msgid "The <b>house</b> of %s is old.\n"
msgstr "Das Haus von %s ist alt.\n"

msgid "Open the <a href=\"x\">door</a> of ${house}."
msgstr "Die Tür öffnen."
END
    cat > a.xlf << 'END'
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" source-language="en"
 target-language="de" datatype="html"><body><trans-unit id="1"><source>The <g id="1">house</g> of ${x} is old.</source>
<target>Das Haus von ${x} ist alt.</target></trans-unit></body></file></xliff>
END
    set -- a.po a.xlf
fi
for file; do
    new=${file%.*}.new.${file##*.}
    extract-align transfer -q "$file" -o "$new"
    for checked in "$file" "$new"; do
        pofilter --progress=none "${checks[@]/#/--test=}" "$checked" "$work/faults.${file##*.}"
        found=$(grep -ohsE '(\(pofilter\) |from="pofilter">)[a-z]+' "$work"/faults.* || true)
        echo "$checked:" ${found//(pofilter) /}
        rm -f "$work"/faults.*
    done
done
