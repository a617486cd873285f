/** What the types of a project's functions say: names and schemas of parameters, results, comments. */

import ts from "typescript";

import { at, BuildFailure } from "./failure.mjs";
import { SchemaWriter, Unsupported } from "./schema.mjs";

/** Types and comments of all operators that the program's sources declare. */
export function typesOf(program, directory, sdk, { isTest = false } = {}) {
  const checker = program.getTypeChecker();
  const found = { functions: {}, docs: {}, states: {} };
  const refused = [];
  // Each test is a program by itself, and may have operators of names that others have.
  const places = isTest ? undefined : new Map();
  for (const file of program.getSourceFiles()) {
    if (file.isDeclarationFile || file.fileName.startsWith(`${sdk}/src/`)) continue;
    const visit = (node) => {
      if (ts.isCallExpression(node) && isOperatorCall(checker, node, sdk)) {
        const call = new OperatorCall(checker, directory, sdk, file, node, refused, places);
        attempt(refused, () => call.addTo(found));
      }
      ts.forEachChild(node, visit);
    };
    visit(file);
  }
  if (refused.length > 0) throw new BuildFailure(refused[0], refused.slice(1));
  return found;
}

/** Notes what is refused, so that it is told with all the rest. */
function attempt(refused, part) {
  try {
    return part();
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    refused.push(error.message);
  }
}

function isOperatorCall(checker, call, sdk) {
  const declaration = checker.getResolvedSignature(call)?.declaration;
  return (
    declaration !== undefined &&
    ts.isFunctionDeclaration(declaration) &&
    declaration.name?.text === "operator" &&
    declaration.getSourceFile().fileName === `${sdk}/src/operator.ts`
  );
}

class OperatorCall {
  constructor(checker, directory, sdk, file, node, refused, places) {
    Object.assign(this, { checker, directory, sdk, file, node, refused, places });
  }

  refuse(node, message) {
    throw new BuildFailure(this.at(node, message));
  }

  at(node, message) {
    const file = node.getSourceFile();
    const { line } = file.getLineAndCharacterOfPosition(node.getStart());
    return at(this.directory, file.fileName, line + 1, message);
  }

  addTo(found) {
    const { checker, node } = this;
    const nameType = checker.getTypeAtLocation(node.arguments[0]);
    if (!nameType.isStringLiteral()) this.refuse(node, "the operator's name must be a text that is written here: it is part of the app's interface");
    const operator = nameType.value;
    const first = this.places?.get(operator);
    if (first !== undefined) this.refuse(node, `the operator "${operator}" is declared twice: import it from ${first}`);
    this.places?.set(operator, this.at(node, "").replace(/: $/, ""));
    const holder = node.parent;
    if (ts.isVariableDeclaration(holder)) {
      const symbol = checker.getSymbolAtLocation(holder.name);
      found.docs[operator] = symbol ? textOf(checker, symbol) : "";
    }
    const state = this.stateOf(operator);
    if (state !== undefined) found.states[operator] = state;
    const functions = checker.getTypeAtLocation(node).getProperty("functions");
    const type = checker.getTypeOfSymbolAtLocation(functions, node);
    // Of what is put together while the module is loaded, the types do not tell.
    const isWritten = checker.getIndexInfosOfType(type).length === 0 && !(type.flags & ts.TypeFlags.Any);
    if (isWritten && state === undefined && type.getProperties().length === 0) {
      this.refuse(node, `the operator "${operator}" has no function: give it one, as in { add(ctx, n: number) { … } }`);
    }
    for (const property of type.getProperties()) {
      found.functions[`${operator}.${property.name}`] = attempt(this.refused, () => this.describe(operator, property));
    }
  }

  /** The schema of what `state: stateOf<…>()` says. */
  stateOf(operator) {
    const { checker, node } = this;
    const options = node.arguments[2];
    const member = (type, name) => {
      const found = type?.getProperty(name);
      return found && checker.getNonNullableType(checker.getTypeOfSymbolAtLocation(found, node));
    };
    const held = member(member(options && checker.getTypeAtLocation(options), "state"), "styxState");
    if (held === undefined) return undefined;
    try {
      return new SchemaWriter(checker, this.sdk).state(checker.getTypeArguments(held)[0]);
    } catch (error) {
      if (!(error instanceof Unsupported)) throw error;
      this.refuse(options, `${operator}: its state: ${error.message}`);
    }
  }

  describe(operator, property) {
    const { checker, node } = this;
    const place = property.valueDeclaration ?? node;
    const qualified = `${operator}.${property.name}`;
    const signatures = checker.getTypeOfSymbolAtLocation(property, node).getCallSignatures();
    if (signatures.length !== 1) this.refuse(place, `${qualified} must be a function with one signature`);
    const [signature] = signatures;
    if (ts.isMethodDeclaration(place) && place.asteriskToken) {
      this.refuse(place, `${qualified} is a generator, whose steps nobody would ask for: return an array`);
    }
    const parameters = signature.parameters.slice(1).map((parameter) => {
      return attempt(this.refused, () => this.parameter(qualified, parameter, place));
    });
    let doc = textOf(checker, property);
    if (doc === "" && signature.declaration !== undefined) doc = ts.displayPartsToString(signature.getDocumentationComment(checker));
    return { parameters, returns: this.returns(qualified, signature, place), doc };
  }

  parameter(qualified, parameter, place) {
    const { checker, node } = this;
    const declaration = parameter.valueDeclaration;
    const at = declaration ?? place;
    const what = `${qualified}: parameter '${parameter.name}'`;
    let required = true;
    let fallback;
    if (declaration !== undefined && (ts.isParameter(declaration) || ts.isJSDocParameterTag(declaration))) {
      if (declaration.dotDotDotToken) this.refuse(at, `${what}: rest parameters have no place in an array of arguments`);
      if (!ts.isIdentifier(declaration.name)) {
        this.refuse(at, `${qualified}: a parameter that is taken apart has no name that a caller could use: take it apart in the function`);
      }
      required = !(ts.isParameter(declaration) ? checker.isOptionalParameter(declaration) : declaration.isBracketed);
      fallback = literalOf(declaration.initializer);
    }
    const type = checker.getTypeOfSymbolAtLocation(parameter, node);
    let schema = this.schema(what, type, at);
    if (fallback !== undefined) schema = { ...schema, default: fallback };
    return { name: parameter.name, schema, required };
  }

  schema(what, type, at) {
    try {
      return new SchemaWriter(this.checker, this.sdk).argument(type);
    } catch (error) {
      if (!(error instanceof Unsupported)) throw error;
      this.refuse(at, `${what}: ${error.message}`);
    }
  }

  returns(qualified, signature, place) {
    try {
      return new SchemaWriter(this.checker, this.sdk).result(signature.getReturnType());
    } catch (error) {
      if (!(error instanceof Unsupported)) throw error;
      this.refuse(place, `${qualified}: the result: ${error.message}`);
    }
  }
}

/** A default that JSON can express, if it is written out. */
function literalOf(node) {
  if (node === undefined) return undefined;
  if (ts.isStringLiteral(node)) return node.text;
  if (ts.isNumericLiteral(node)) return Number(node.text);
  if (node.kind === ts.SyntaxKind.TrueKeyword) return true;
  if (node.kind === ts.SyntaxKind.FalseKeyword) return false;
  if (node.kind === ts.SyntaxKind.NullKeyword) return null;
  return undefined;
}

function textOf(checker, symbol) {
  return ts.displayPartsToString(symbol.getDocumentationComment(checker));
}
