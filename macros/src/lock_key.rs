//! `lock_key!("order:{id}")`: makes a key from the variables around it.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Error, LitStr, Result};

use crate::template::{Placeholder, Template};

pub(crate) fn lock_key(input: TokenStream) -> TokenStream {
    key(input).unwrap_or_else(Error::into_compile_error)
}

fn key(input: TokenStream) -> Result<TokenStream> {
    let literal: LitStr = syn::parse2(input).map_err(|error| {
        let text = "`lock_key!` takes a template in quotes, and nothing else, such as \
                    `lock_key!(\"order:{id}\")`";
        Error::new(error.span(), text)
    })?;
    let at = literal.span();
    let variable = |Placeholder { root, .. }: &Placeholder| match syn::parse_str::<Ident>(root) {
        Ok(_) => Ok(Ident::new(root, at)),
        Err(_) if root == "self" => Ok(Ident::new(root, at)),
        Err(_) if ["Self", "super", "crate", "_"].contains(&&**root) => {
            Err(Error::new(at, format!("`{root}` is not a variable")))
        }
        Err(_) => Ok(Ident::new_raw(root, at)),
    };
    Template::parse(literal)?.key(&quote!(::leasehold::__private), variable)
}
