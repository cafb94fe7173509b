// The program release packs modules as a file GOPROXY serves them.
//
//	go run . VERSION FOLDER MODULE_FOLDER…
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	log.SetFlags(0)
	const firstModule = 3
	if len(os.Args) <= firstModule {
		log.Fatal("usage: release VERSION FOLDER MODULE_FOLDER…")
	}
	for _, source := range os.Args[firstModule:] {
		if err := pack(os.Args[1], os.Args[2], source); err != nil {
			log.Fatalf("%s: %v", source, err)
		}
	}
}

// pack writes what `go help goproxy` asks for: a list of versions, and of each version its facts, its go.mod and a zip
// file, which leaves out the modules below it.
func pack(version, folder, source string) error {
	manifest, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return err
	}
	packed := module.Version{Path: modfile.ModulePath(manifest), Version: version}
	escaped, err := module.EscapePath(packed.Path)
	if err != nil {
		return err
	}
	target := filepath.Join(folder, escaped, "@v")
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	files := map[string][]byte{"list": fmt.Appendln(nil, version), version + ".info": info, version + ".mod": manifest}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(target, name), content, 0o644); err != nil {
			return err
		}
	}
	archive, err := os.Create(filepath.Join(target, version+".zip"))
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := zip.CreateFromDir(archive, packed, source); err != nil {
		return err
	}
	return archive.Close()
}
