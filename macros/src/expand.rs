//! Writes the guarded function: a few lines in front of the body.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::{Error, FnArg, Result, Type, ext::IdentExt, spanned::Spanned};

use crate::{
    args::{Args, CallOption, SetKind, SetLock, Target},
    fenceless,
    function::Function,
    parser, signature,
    template::{Placeholder, Template},
    values::{IfHeld, Key},
};

/// The guarded function. After a mistake it is the error and the function as it was, so
/// that rustc does not also report a missing function or unused arguments.
pub(crate) fn distributed_lock(args: TokenStream, item: &TokenStream) -> TokenStream {
    guarded(args, item.clone()).unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote!(#error #[allow(unused_variables)] #item)
    })
}

fn guarded(args: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let Args { target, if_held, lease, success, options, runtime } = parser::parse(args)?;
    let function = Function::parse(item)?;
    let output = output(&function, if_held)?;
    let site = Span::mixed_site();
    let private = quote_spanned!(site=> #runtime::__private);
    if let Some(name) = &lease {
        fenceless::refuse(name, &options, &function.block())?;
    }
    let handle_of = match &target {
        Target::One(_) => quote_spanned!(site=> #private::lease()),
        Target::Set(_) => quote_spanned!(site=> #private::lease_set()),
    };
    let lease = lease.map(|name| handle(&name, &function, &handle_of)).transpose()?;
    let options: TokenStream =
        options.into_iter().map(|CallOption { name, value }| quote!(.#name(#value))).collect();
    // The whole call has the span of the return type. If that type can't hold an error,
    // rustc then reports it once, and there.
    let at = site.located_at(output.span());
    let (new, run) = match (if_held, &success) {
        (IfHeld::Error, None) => (quote!(new), quote_spanned!(at=> run)),
        (IfHeld::Error, Some(_)) => (quote!(new), quote_spanned!(at=> run_if)),
        (IfHeld::Skip, None) => (quote!(or_skip), quote_spanned!(at=> run_or_skip)),
        (IfHeld::Skip, Some(_)) => (quote!(or_skip), quote_spanned!(at=> run_or_skip_if)),
    };
    let call = match target {
        Target::One(key) => {
            let key = key_of(key, &function, &private)?;
            quote_spanned!(site=> #private::Call::#new(#key))
        }
        Target::Set(locks) => {
            let locks: TokenStream = locks
                .into_iter()
                .map(|lock| added(lock, &function, &private))
                .collect::<Result<_>>()?;
            quote_spanned!(site=> #private::SetCall::#new()#locks)
        }
    };
    let (arguments, is_boxed) = (function.signature.inputs.clone(), function.is_boxed());
    Ok(function.guarded_by(|block| {
        // A boxed block takes the arguments that its author lets it take. Others may be moved by then, or may
        // not live as long.
        let taken = if is_boxed { TokenStream::new() } else { taken(arguments.iter(), &block) };
        let body = body(&output, (&taken, lease.as_ref()), &block);
        let body = quote_spanned!(site=> #private::pin!(#private::body(async move #body)));
        let call = quote_spanned!(site=> let __call = #call #options;);
        if let Some(success) = success {
            // Before the body, which takes the arguments.
            let guarded = quote_spanned!(at=> __call.#run(#success, #body).await);
            quote!(#call #guarded)
        } else {
            let guarded = quote_spanned!(at=> __call.#run(__body).await);
            quote_spanned!(site=> #call let __body = #body; #guarded)
        }
    }))
}

/// The block, after a `return` that never runs, what takes the arguments, and the lease's handle if the
/// user asked for it. The `return` tells rustc the type, so that it reports a wrong result at its place.
fn body(
    output: &Type,
    (taken, lease): (&TokenStream, Option<&TokenStream>),
    block: &Group,
) -> Group {
    let statements = block.stream();
    let typed = quote_spanned! {Span::mixed_site()=>
        #[allow(unreachable_code)]
        if false {
            let __result: #output = loop {};
            return __result;
        }
        #taken
        #lease
        #statements
    };
    let mut body = Group::new(Delimiter::Brace, typed);
    body.set_span(block.span());
    body
}

/// The statements that take the arguments whole into the body, so that they are dropped under the lock:
/// those that the body mentions, of which it may use a part, and those whose names begin with an
/// underscore, which are there for their drop. rustc is to say that the others are unused.
fn taken<'a>(arguments: impl Iterator<Item = &'a FnArg>, block: &Group) -> TokenStream {
    let mentioned = words(block.stream());
    let is_taken =
        |name: &Ident| name.to_string().starts_with('_') || mentioned.contains(&name.to_string());
    let each = arguments.flat_map(|argument| {
        let names = signature::names(argument).into_iter().filter(is_taken);
        names.map(move |name| {
            let conditions = signature::conditions(argument);
            quote_spanned! {Span::mixed_site()=>
                #(#conditions)*
                #[allow(clippy::used_underscore_binding)]
                let _ = (&#name,);
            }
        })
    });
    each.collect()
}

/// The identifiers in some code that may be variables, and those in the strings that format macros read.
fn words(code: TokenStream) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let is = |token: &TokenTree, char: char| matches!(token, TokenTree::Punct(punct) if punct.as_char() == char);
    // The dots right before a token: behind one alone stands a field or a method. Before a colon stands a field
    // or a path.
    let (mut dots, mut code) = (0, code.into_iter().peekable());
    while let Some(token) = code.next() {
        let is_dot = is(&token, '.');
        let is_named = code.peek().is_some_and(|next| is(next, ':'));
        match token {
            TokenTree::Group(group) => found.extend(words(group.stream())),
            TokenTree::Ident(word) if dots != 1 && !is_named => {
                found.insert(word.to_string());
            }
            TokenTree::Literal(text) => found.extend(formatted(&text.to_string())),
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
        dots = if is_dot { dots + 1 } else { 0 };
    }
    found
}

/// The variables that a format string names: `{name}`, `{name:?}`, `{:width$}`.
fn formatted(text: &str) -> impl Iterator<Item = String> {
    let is_part = |at: char| at.is_alphanumeric() || at == '_';
    let named = text.split('{').skip(1).map(move |rest| rest.split(|at| !is_part(at)).next());
    let widths = text.split('$').map(move |before| before.rsplit(|at| !is_part(at)).next());
    named.chain(widths).flatten().map(str::to_owned)
}

/// The statement that binds the handle of the lease to the user's name for it.
fn handle(name: &Ident, function: &Function, handle: &TokenStream) -> Result<TokenStream> {
    if signature::arguments(&function.signature).contains(name) {
        let text =
            format!("`{name}` is already an argument of the function: give the lease another name");
        return Err(Error::new(name.span(), text));
    }
    Ok(quote_spanned!(Span::mixed_site()=> let #name = #handle;))
}

/// The type of the result. It must have a value that means "not acquired".
fn output(function: &Function, if_held: IfHeld) -> Result<Type> {
    let name = &function.signature.ident;
    match signature::output(&function.signature) {
        None if if_held == IfHeld::Skip => Ok(Type::Verbatim(quote_spanned!(name.span()=> ()))),
        None => Err(Error::new(name.span(), NO_ROOM)),
        Some(Type::Tuple(unit)) if unit.elems.is_empty() && if_held == IfHeld::Error => {
            Err(Error::new(unit.span(), NO_ROOM))
        }
        Some(Type::Never(never)) => Err(Error::new(never.span(), NO_ROOM)),
        Some(output) => Ok(output),
    }
}

const NO_ROOM: &str = "a function under `#[distributed_lock]` must be able to report that the lock \
                       was not acquired: return `Result<_, E>` with `E: From<LockError>`, or use \
                       `if_held = \"skip\"`";

/// Adds a lock to those of a call.
fn added(lock: SetLock, function: &Function, private: &TokenStream) -> Result<TokenStream> {
    let key = key_of(lock.key, function, private)?;
    Ok(match lock.kind {
        SetKind::Mutex => quote!(.mutex(#key)),
        SetKind::Permit { permits, weight } => quote!(.permit(#key, #permits, #weight)),
        SetKind::Read => quote!(.read(#key)),
        SetKind::Write => quote!(.write(#key)),
        SetKind::Rate { rate, weight } => {
            let rate = rate.expression(private);
            quote!(.rate(#key, #rate, #weight))
        }
    })
}

fn key_of(key: Key, function: &Function, private: &TokenStream) -> Result<TokenStream> {
    match key {
        Key::Template(template) => from_template(&template, function, private),
        Key::Expr(key) => Ok(quote_spanned!(Span::mixed_site()=> #private::key(#key))),
    }
}

fn from_template(
    template: &Template,
    function: &Function,
    private: &TokenStream,
) -> Result<TokenStream> {
    let at = template.literal.span();
    let arguments = signature::arguments(&function.signature);
    template.key(private, |Placeholder { source, root, .. }| {
        let Some(argument) = arguments.iter().find(|name| name.unraw() == root) else {
            return Err(Error::new(at, no_argument(source, root, &arguments)));
        };
        // The argument's own identifier keeps its hygiene, so that rustc also finds it in
        // a function that a `macro_rules` macro wrote.
        let mut variable = argument.clone();
        variable.set_span(argument.span().located_at(at));
        Ok(variable)
    })
}

fn no_argument(source: &str, root: &str, arguments: &[Ident]) -> String {
    let names: Vec<_> = arguments.iter().map(|name| format!("`{name}`")).collect();
    let there_are = match names.as_slice() {
        [] => "the function has no arguments".to_owned(),
        [only] => format!("the function's only argument is {only}"),
        [first @ .., last] => {
            format!("the function's arguments are {} and {last}", first.join(", "))
        }
    };
    format!("the placeholder `{{{source}}}` names `{root}`, which is not an argument: {there_are}")
}
