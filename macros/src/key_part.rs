//! `#[derive(KeyPart)]`: a newtype appears in a key as its inner value.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Error, Fields, Index, Member, Result, parse_quote, spanned::Spanned};

pub(crate) fn derive(input: TokenStream) -> TokenStream {
    implementation(input).unwrap_or_else(Error::into_compile_error)
}

fn implementation(input: TokenStream) -> Result<TokenStream> {
    let DeriveInput { ident: name, mut generics, data, .. } = syn::parse2(input)?;
    let refused = |what: &str| {
        let text = format!(
            "`KeyPart` can only be derived for a struct with one field, such as \
             `struct OrderId(u64);`, and `{name}` {what}: write \
             `impl leasehold::KeyPart for {name}`, or use one of its fields in the key"
        );
        Error::new(name.span(), text)
    };
    let fields = match data {
        Data::Struct(data) => data.fields,
        Data::Enum(_) => return Err(refused("is an enum")),
        Data::Union(_) => return Err(refused("is a union")),
    };
    let count = fields.len();
    let field = match fields {
        Fields::Named(fields) => fields.named.into_iter().next(),
        Fields::Unnamed(fields) => fields.unnamed.into_iter().next(),
        Fields::Unit => None,
    };
    let Some(field) = field.filter(|_| count == 1) else {
        return Err(refused(&match count {
            0 => "has none".to_owned(),
            _ => format!("has {count} fields"),
        }));
    };
    let inner = field.ty;
    let at = inner.span();
    let index = || Member::Unnamed(Index { index: 0, span: at });
    let member = field.ident.map_or_else(index, Member::Named);
    let private = quote_spanned!(at=> ::leasehold::__private);
    // Without parameters rustc reports a wrong type at the field; a bound would only
    // repeat that.
    if generics.type_params().next().is_some() {
        let bound = parse_quote!(#inner: #private::KeyPart);
        generics.make_where_clause().predicates.push(bound);
    }
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let write = quote_spanned!(at=> #private::KeyPart::write_part(&self.#member, out));
    Ok(quote! {
        #[automatically_derived]
        impl #parameters #private::KeyPart for #name #arguments #bounds {
            fn write_part(&self, out: &mut dyn ::core::fmt::Write) -> ::core::fmt::Result {
                #write
            }
        }
    })
}
