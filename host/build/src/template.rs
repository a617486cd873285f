//! New projects: a directory of each language that builds and passes its tests as it is.

use std::fs;
use std::path::{Path, PathBuf};

use rust_embed::RustEmbed;

use super::error::{BuildError, Code};
use super::manifest::{Language, check_name};

#[derive(RustEmbed)]
#[folder = "templates"]
struct Templates;

/// What stands in a template for the app's name.
const NAME: &str = "{{name}}";

/// Makes a directory with an app of its name, and returns the files. A directory that is there already is left alone,
/// unless it is empty.
pub fn create(directory: &Path, language: Language) -> Result<Vec<PathBuf>, BuildError> {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    check_name("an app", &name).map_err(|error| BuildError { code: Code::BadProject, ..error })?;
    if directory.exists() && fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_some()) {
        return Err(BuildError::new(Code::BadProject, format_args!("{} is there already", directory.display()))
            .hint("give another name, or an empty directory"));
    }
    let within = format!("{language}/");
    let mut files = Vec::new();
    for path in Templates::iter().filter(|path| path.starts_with(&within)) {
        let text = Templates::get(&path).expect("a listed file is there").data;
        let text = String::from_utf8_lossy(&text).replace(NAME, &name);
        // With its own name it would keep git from seeing the templates' files.
        let relative = path[within.len()..].replace("gitignore", ".gitignore");
        let file = directory.join(&relative);
        let parent = file.parent().expect("it is in the directory");
        fs::create_dir_all(parent).map_err(BuildError::io("create", parent))?;
        fs::write(&file, text).map_err(BuildError::io("write", &file))?;
        files.push(relative.into());
    }
    files.sort_unstable();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::{Origin, Project};

    const ALL: [Language; 5] = [Language::Rust, Language::Python, Language::TypeScript, Language::Go, Language::C];

    #[test]
    fn every_template_is_a_project_of_its_language() {
        for wanted in ALL {
            let parent = tempfile::tempdir().unwrap();
            let directory = parent.path().join("my-bank");
            let files = create(&directory, wanted).unwrap();
            assert!(files.len() >= 5, "{wanted}: {files:?}");
            for file in &files {
                let text = fs::read_to_string(directory.join(file)).unwrap();
                assert!(!text.contains("{{") || wanted == Language::TypeScript, "{wanted} {}", file.display());
                assert!(!text.contains(NAME), "{wanted} {}", file.display());
            }
            let project = Project::open(&directory).unwrap();
            assert_eq!(project.name(), "my-bank");
            let [source] = &project.components[..] else { panic!("{wanted}: one component") };
            assert!(matches!(&source.origin, Origin::Directory { language, .. } if *language == wanted));
        }
    }

    #[test]
    fn what_is_there_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("bank");
        fs::create_dir(&directory).unwrap();
        create(&directory, Language::C).unwrap();
        let error = create(&directory, Language::C).unwrap_err();
        assert!(error.message.ends_with("bank is there already"), "{error}");
        let error = create(&parent.path().join("my bank"), Language::C).unwrap_err();
        assert_eq!(error.message, "\"my bank\" cannot name an app");
    }
}
