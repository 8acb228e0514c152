//! Finds out which file of a crate uses which, from the `use` lines and paths in the code and in
//! macros. A re-export counts as the file that defines the item. Method calls have no path, so they
//! are not seen. Unit tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// The path of a module, from the crate's root.
type Module = Vec<String>;

/// One file uses another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Arrow {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) line: usize,
}

/// The files of a crate, and their arrows.
#[derive(Debug, Default)]
pub(super) struct Crate {
    pub(super) files: BTreeSet<String>,
    pub(super) arrows: BTreeSet<Arrow>,
    /// Imports of items from the crate's root: file, line and path.
    pub(super) through_the_root: Vec<(String, usize, String)>,
}

/// A path, and where it is written.
#[derive(Debug)]
struct Written {
    /// The module it stands in, inline modules included.
    within: Module,
    path: Vec<String>,
    line: usize,
}

/// The contents of one file.
#[derive(Debug, Default)]
struct Found {
    within: Module,
    written: Vec<Written>,
    /// Names that a `use` line brings into scope, by module.
    names: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

impl Crate {
    /// Reads the files below a folder. `root` is the file that stands for the crate.
    pub(super) fn read(folder: &Path, root: &str) -> Self {
        let sources = super::files(folder);
        let modules: BTreeMap<Module, String> =
            sources.iter().map(|(file, _)| (module(file, root), file.clone())).collect();
        let mut found = Vec::new();
        for (file, text) in &sources {
            let within = module(file, root);
            let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
            let mut here = Found { within: within.clone(), ..Found::default() };
            here.visit_file(&parsed);
            found.push((within, here));
        }
        let mut names = BTreeMap::new();
        for (_, here) in &mut found {
            names.append(&mut here.names);
        }
        let resolver = Resolver { modules: &modules, names: &names };
        let mut read = Self { files: modules.values().cloned().collect(), ..Self::default() };
        for (from, here) in found.iter().filter(|(from, _)| !from.is_empty()) {
            let file = &modules[from];
            for Written { within, path, line } in &here.written {
                if let [first, second, ..] = &path[..]
                    && first == "crate"
                    && !modules.contains_key(std::slice::from_ref(second))
                {
                    read.through_the_root.push((file.clone(), *line, path.join("::")));
                }
                if let Some(to) = resolver.definer(within, path)
                    && to != file
                {
                    let (from, to, line) = (file.clone(), to.clone(), *line);
                    read.arrows.insert(Arrow { from, to, line });
                }
            }
        }
        read
    }

    /// The circles: for each, the arrows within it.
    pub(super) fn circles(&self) -> Vec<Vec<&Arrow>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            self.files.iter().map(|file| (&**file, self.reached_from(file))).collect();
        let mut circles = Vec::new();
        let mut seen = BTreeSet::new();
        for file in &self.files {
            let circle: BTreeSet<_> =
                reached[&**file].iter().filter(|it| reached[**it].contains(&**file)).collect();
            if circle.len() > 1 && seen.insert(circle.clone()) {
                let is_within =
                    |it: &&Arrow| circle.contains(&&*it.from) && circle.contains(&&*it.to);
                circles.push(self.arrows.iter().filter(is_within).collect());
            }
        }
        circles
    }

    fn reached_from<'a>(&'a self, file: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![file]);
        while let Some(file) = next.pop() {
            for arrow in self.arrows.iter().filter(|arrow| arrow.from == file) {
                if reached.insert(&*arrow.to) {
                    next.push(&arrow.to);
                }
            }
        }
        reached
    }
}

/// The module of a file; of `x/mod.rs` and `x.rs` it is `x`.
fn module(file: &str, root: &str) -> Module {
    if file == root {
        return Module::new();
    }
    let name = file.strip_suffix(".rs").expect("a source file");
    let name = name.strip_suffix("/mod").unwrap_or(name);
    name.split('/').map(str::to_owned).collect()
}

struct Resolver<'a> {
    modules: &'a BTreeMap<Module, String>,
    names: &'a BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

impl Resolver<'_> {
    /// The file that defines the item of a path. `None` if it is not in this crate.
    fn definer(&self, within: &[String], path: &[String]) -> Option<&String> {
        self.resolve(within, path, 0)
    }

    fn resolve(&self, within: &[String], path: &[String], depth: usize) -> Option<&String> {
        if depth > 16 {
            return None;
        }
        let absolute = self.absolute(within, path)?;
        // The longest prefix that is a module, and the name that follows it.
        let (module, rest) = (0..=absolute.len())
            .rev()
            .map(|length| absolute.split_at(length))
            .find(|(module, _)| self.is_module(module))?;
        if let [name, after @ ..] = rest
            && let Some(target) = self.names.get(module).and_then(|names| names.get(name))
        {
            let path: Vec<_> = target.iter().chain(after).cloned().collect();
            if let Some(file) = self.resolve(module, &path, depth + 1) {
                return Some(file);
            }
        }
        let file = (0..=module.len()).rev().find_map(|length| self.modules.get(&module[..length]));
        file.filter(|_| !module.is_empty())
    }

    fn is_module(&self, module: &[String]) -> bool {
        self.modules.contains_key(module) || self.names.contains_key(module)
    }

    fn absolute(&self, within: &[String], path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let mut base = within.to_vec();
        match &**first {
            "crate" => return Some(rest.to_vec()),
            "self" => {}
            "super" => {
                base.pop();
                let mut rest = rest;
                while let [first, after @ ..] = rest
                    && first == "super"
                {
                    base.pop();
                    rest = after;
                }
                base.extend_from_slice(rest);
                return Some(base);
            }
            _ => {
                let child = [&base[..], std::slice::from_ref(first)].concat();
                if self.is_module(&child) {
                    return Some([&child, rest].concat());
                }
                let target = self.names.get(&base)?.get(first)?;
                // A name of another crate, or of itself.
                if target.first() == Some(first) {
                    return None;
                }
                let target = self.absolute(within, target)?;
                return Some([&target[..], rest].concat());
            }
        }
        base.extend_from_slice(rest);
        Some(base)
    }
}

impl Found {
    fn note(&mut self, path: Vec<String>, line: usize) {
        self.written.push(Written { within: self.within.clone(), path, line });
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        let mut leaf = |name: String, path: Vec<String>, line: usize| {
            self.names.entry(self.within.clone()).or_default().insert(name, path.clone());
            self.note(path, line);
        };
        match tree {
            syn::UseTree::Path(part) => self.tree(&part.tree, &with(&part.ident)),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(tree, before));
            }
            syn::UseTree::Name(name) => {
                let path = if name.ident == "self" { before.to_vec() } else { with(&name.ident) };
                let last = path.last().cloned().unwrap_or_default();
                leaf(last, path, name.ident.span().start().line);
            }
            syn::UseTree::Rename(renamed) => {
                let name = renamed.rename.to_string();
                leaf(name, with(&renamed.ident), renamed.ident.span().start().line);
            }
            syn::UseTree::Glob(glob) => {
                let line = glob.star_token.spans[0].start().line;
                self.note(before.to_vec(), line);
            }
        }
    }

    /// Paths in the tokens of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut line, mut colons) = (Vec::new(), 0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(&mut path, line);
                    }
                    line = ident.span().start().line;
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.end(&mut path, line);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end(&mut path, line);
    }

    fn end(&mut self, path: &mut Vec<String>, line: usize) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.note(path, line);
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        is_cfg && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() || is_test(&item.attrs) {
            return;
        }
        self.within.push(item.ident.to_string());
        self.names.entry(self.within.clone()).or_default();
        visit::visit_item_mod(self, item);
        self.within.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.tree(&item.tree, &[]);
        }
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        if !is_test(&item.attrs) {
            visit::visit_item_static(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if names.len() > 1 {
            let line = path.segments[0].ident.span().start().line;
            self.note(names, line);
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in crate::x)` is no use of it.
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.tokens(item.tokens.clone());
    }
}
