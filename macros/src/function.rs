//! The annotated function. Its signature is parsed; its body stays tokens, so that an IDE
//! understands a body that is still being typed.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Attribute, Error, ExprAsync, ExprClosure, ExprReturn, Item, Path, Result, Signature,
    Visibility,
    parse::{ParseStream, Parser},
    visit_mut::VisitMut,
};

pub(crate) struct Function {
    /// Everything before the body, unchanged.
    head: TokenStream,
    body: Group,
    shape: Shape,
    pub(crate) signature: Signature,
}

const NOT_ASYNC: &str = "only async functions can wait for a lock: make the function async, with its \
                         blocking work in `tokio::task::spawn_blocking` and `on_lost = \"finish\"`; or \
                         acquire the lock in its async caller, and run it by \
                         `lease.run_blocking(|lease| ...)`";

const ORDER: &str = "this function is not async any more: an attribute above `#[distributed_lock]`, such as \
                     `#[tokio::main]` or `#[tokio::test]`, has put its body into a `block_on`; move \
                     `#[distributed_lock(...)]` above that attribute. If the `block_on` is yours, make \
                     the function async";

enum Shape {
    Async,
    /// The shape that `#[async_trait]` gives an `async fn`: a function whose body ends in
    /// `Box::pin(async move { .. })`, with that block.
    Boxed(Group),
}

impl Function {
    pub(crate) fn parse(item: TokenStream) -> Result<Self> {
        let mut head: Vec<_> = item.into_iter().collect();
        let no_function = |tokens: &TokenStream| {
            let text = "`#[distributed_lock]` guards async functions and methods";
            Error::new_spanned(tokens, text)
        };
        let is_fn = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word == "fn");
        let Some(last) = head.pop().filter(|_| head.iter().any(is_fn)) else {
            return Err(no_function(&head.into_iter().collect()));
        };
        let TokenTree::Group(body) = last else {
            let text =
                "this function has no body to guard: put the attribute on the implementations";
            return Err(Error::new(last.span(), text));
        };
        let head: TokenStream = head.into_iter().collect();
        let signature = signature.parse2(head.clone())?;
        let shape = match (&signature.asyncness, boxed_block(&body)) {
            (Some(_), _) => Shape::Async,
            (None, Some(block)) => {
                if let Some(at) = early_return(&body) {
                    let text = "this would return without the lock: move what stands before `Box::pin` \
                                into its `async move` block";
                    return Err(Error::new(at, text));
                }
                Shape::Boxed(block)
            }
            (None, None) => {
                let text = if is_blocking_on_async(&head, &body) { ORDER } else { NOT_ASYNC };
                return Err(Error::new_spanned(signature.fn_token, text));
            }
        };
        Ok(Self { head, body, shape, signature })
    }

    /// The tokens between the body's braces.
    pub(crate) fn block(&self) -> TokenStream {
        self.body.stream()
    }

    /// It returns the box of a future.
    pub(crate) fn is_boxed(&self) -> bool {
        matches!(self.shape, Shape::Boxed(_))
    }

    /// The function, with the body that `guard` makes of its block.
    pub(crate) fn guarded_by(self, guard: impl FnOnce(Group) -> TokenStream) -> TokenStream {
        let mut function = self.head;
        let tokens = match self.shape {
            Shape::Async => {
                let (attributes, block) = split_inner_attributes(&self.body);
                let guarded = guard(block);
                quote!(#attributes #guarded)
            }
            Shape::Boxed(block) => {
                let mut before: Vec<_> = self.body.stream().into_iter().collect();
                before.pop();
                let guarded = guard(block);
                quote!(#(#before)* (async move { #guarded }))
            }
        };
        let mut body = Group::new(Delimiter::Brace, tokens);
        body.set_span(self.body.span());
        body.to_tokens(&mut function);
        function
    }
}

fn signature(input: ParseStream<'_>) -> Result<Signature> {
    let others = input.call(Attribute::parse_outer)?;
    let is_ours =
        |path: &Path| path.segments.last().is_some_and(|it| it.ident == "distributed_lock");
    if let Some(second) = others.iter().find(|it| is_ours(it.path())) {
        let text = "a function can have one `#[distributed_lock]`: to take several locks, write \
                    `all(lock(key = ..), lock(key = ..))` in it";
        return Err(Error::new_spanned(second, text));
    }
    input.parse::<Visibility>()?;
    input.parse()
}

/// The block in `{ .. Box::pin(async move { .. }) }`.
fn boxed_block(body: &Group) -> Option<Group> {
    let tokens: Vec<_> = body.stream().into_iter().collect();
    let [.., TokenTree::Ident(r#box), _, _, TokenTree::Ident(pin), TokenTree::Group(call)] =
        tokens.as_slice()
    else {
        return None;
    };
    let inside: Vec<_> = call.stream().into_iter().collect();
    match inside.as_slice() {
        [TokenTree::Ident(r#async), TokenTree::Ident(r#move), TokenTree::Group(block)]
            if r#box == "Box" && pin == "pin" && r#async == "async" && r#move == "move" =>
        {
            Some(block.clone())
        }
        _ => None,
    }
}

/// Returns true if a function that is not async looks like one that an attribute has made of an async
/// one: it is a test, or blocks its thread, and has async code inside.
fn is_blocking_on_async(head: &TokenStream, body: &Group) -> bool {
    has_word(body.stream(), &|word| word == "async")
        && (has_word(head.clone(), &|word| word == "test")
            || has_word(body.stream(), &|word| word.contains("block_on")))
}

fn has_word(tokens: TokenStream, is: &dyn Fn(&str) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => has_word(group.stream(), is),
        TokenTree::Ident(word) => is(&word.to_string()),
        _ => false,
    })
}

/// Finds a `return` of the function itself, outside of closures, async blocks and items. A body that is
/// still being typed has none.
fn early_return(body: &Group) -> Option<Span> {
    let mut found = Returns(None);
    found.visit_block_mut(&mut syn::parse2(body.to_token_stream()).ok()?);
    found.0
}

struct Returns(Option<Span>);

impl VisitMut for Returns {
    fn visit_expr_return_mut(&mut self, expression: &mut ExprReturn) {
        self.0 = Some(expression.return_token.span);
    }

    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}

    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

/// Splits off the inner attributes: they belong to the function, and a block inside it
/// can't have them.
fn split_inner_attributes(block: &Group) -> (TokenStream, Group) {
    let mut tokens: Vec<_> = block.stream().into_iter().collect();
    let is_attribute = |tokens: &&[TokenTree]| {
        matches!(tokens, [TokenTree::Punct(hash), TokenTree::Punct(not), TokenTree::Group(_)]
            if hash.as_char() == '#' && not.as_char() == '!')
    };
    let attributes = tokens.chunks(3).take_while(is_attribute).count();
    let statements = tokens.split_off(3 * attributes).into_iter().collect();
    let mut rest = Group::new(Delimiter::Brace, statements);
    rest.set_span(block.span());
    (tokens.into_iter().collect(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(item: &str) -> Function {
        Function::parse(item.parse().unwrap()).unwrap()
    }

    fn mistake(item: &str) -> String {
        Function::parse(item.parse().unwrap()).err().expect("a mistake").to_string()
    }

    /// The function with its block put into `guarded!`, both in rustc's words.
    fn guarded(item: &str) -> String {
        function(item).guarded_by(|block| quote!(guarded! #block)).to_string()
    }

    fn tokens(text: &str) -> String {
        text.parse::<TokenStream>().unwrap().to_string()
    }

    #[test]
    fn only_the_body_changes() {
        let head = "/// Doc. \n #[inline] pub(crate) async unsafe fn f<'a, T>(&'a mut self, mut t: T) \
                    -> Result<&'a T, E> where T: Clone";
        let expected = tokens(&format!("{head} {{ guarded! {{ let half = ; }} }}"));
        assert_eq!(guarded(&format!("{head} {{ let half = ; }}")), expected);
        let expected = tokens("async fn f() { #![allow(unused)] guarded! { 1 } }");
        assert_eq!(guarded("async fn f() { #![allow(unused)] 1 }"), expected);
    }

    #[test]
    fn a_boxed_block_is_guarded_inside() {
        let expected = tokens("fn f() -> F { a; Box::pin(async move { guarded! { b } }) }");
        assert_eq!(guarded("fn f() -> F { a; Box::pin(async move { b }) }"), expected);
        let expected = tokens("fn f() -> F { ::std::boxed::Box::pin(async move { guarded! {} }) }");
        assert_eq!(guarded("fn f() -> F { ::std::boxed::Box::pin(async move {}) }"), expected);
    }

    #[test]
    fn a_return_before_the_box_is_refused() {
        for early in
            ["return Box::pin(async move { 1 });", "if a { b(return c) }", "|| 1; return d;"]
        {
            let item = format!("fn f() -> F {{ {early} Box::pin(async move {{ b }}) }}");
            assert!(mistake(&item).starts_with("this would return without the lock"), "{early}");
        }
        for own in [
            "let a = |x| { return 1 };",
            "let a = |x| -> u8 { return 1 };",
            "let a = |x| match x { _ => return 1 };",
            "let a = async move { return 1 };",
            "fn a() -> u8 { return 1; }",
            "",
        ] {
            function(&format!("fn f() -> F {{ {own} Box::pin(async move {{ return b }}) }}"));
        }
    }

    /// As tokio, async-std, actix and sqlx expand theirs.
    #[test]
    fn a_function_that_an_attribute_has_made_block_is_told_the_order() {
        for item in [
            "fn main() -> T { let body = async { 1 }; { use tokio::runtime::Builder; \
             return Builder::new_multi_thread().build().expect(\"a\").block_on(body); } }",
            "#[::core::prelude::v1::test] fn f() { let body = async {}; tokio::pin!(body); \
             return rt().block_on(body); }",
            "fn main() { async fn main() {} async_std::task::block_on(async { main().await }) }",
            "fn main() { <::actix_web::rt::System>::new().block_on(async move { {} }) }",
            "#[::core::prelude::v1::test] fn f() { async fn inner(p: P) {} runs(inner) }",
        ] {
            assert_eq!(mistake(item), ORDER, "{item}");
        }
        for item in ["fn f() { block_on(report()) }", "#[test] fn f() {}"] {
            assert_eq!(mistake(item), NOT_ASYNC, "{item}");
        }
    }

    #[test]
    fn other_items_are_refused() {
        let sync = "only async functions can wait for a lock";
        assert!(mistake("fn f() -> T { 1 }").starts_with(sync));
        assert!(mistake("const fn f() -> T { Box::new(async move {}) }").starts_with(sync));
        assert!(mistake("async fn f() -> T;").starts_with("this function has no body to guard"));
        for item in ["struct F { f: fn() }", "mod f { fn f() {} }", "static F: u8 = 1;", ""] {
            assert!(mistake(item).starts_with("`#[distributed_lock]` guards async fun"), "{item}");
        }
    }
}
